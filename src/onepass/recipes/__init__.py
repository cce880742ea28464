"""Known sets as task files: where their files lie, how they are read, which metric and mean the papers take.

RECIPES holds them by name. `write_recipe` makes a task file of one, `write_answers` a leaderboard's files.
"""

from onepass.errors import ConfigError, unknown
from onepass.recipes.choices import COSMOSQA, WINOGRANDE
from onepass.recipes.glue import GLUE
from onepass.recipes.goemotions import GOEMOTIONS
from onepass.recipes.mrqa import MRQA
from onepass.recipes.nhc import NHC
from onepass.recipes.nli import SCITAIL, SNLI
from onepass.recipes.recipe import Recipe
from onepass.recipes.sentences import SENTENCES
from onepass.recipes.sentiment import IMDB, TOMATOES, YELP
from onepass.recipes.submission import recipe_of, write_answers
from onepass.recipes.superglue import SUPERGLUE
from onepass.recipes.wnut import WNUT
from onepass.recipes.writing import Written, write_recipe

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        *(GLUE, SUPERGLUE, MRQA, WNUT, SNLI, SCITAIL, IMDB, YELP, TOMATOES, SENTENCES),
        *(WINOGRANDE, COSMOSQA, GOEMOTIONS, NHC),
    )
}

__all__ = ["RECIPES", "Recipe", "Written", "find_recipe", "recipe_of", "write_answers", "write_recipe"]


def find_recipe(name: str) -> Recipe:
    """The recipe of this name; ConfigError with the nearest if there is none."""
    if name not in RECIPES:
        raise ConfigError(unknown("recipe", name, RECIPES))
    return RECIPES[name]
