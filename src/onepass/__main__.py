"""python -m onepass: the same as the command onepass."""

from onepass.cli.app import main

if __name__ == "__main__":
    main()
