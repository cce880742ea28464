"""Requests made at random: whatever comes in, the server answers in its own shape and never with a fault of its own."""

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=40)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.text(st.characters(), max_size=60)
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        "shape": st.lists(st.integers(0, 3), max_size=3) | VALUES,
        "datatype": st.sampled_from(["BYTES", "FP32"]) | VALUES,
        "data": st.lists(TEXTS, max_size=3) | VALUES,
    },
)
BODIES = {
    "/predict": st.fixed_dictionaries(
        {},
        optional={
            "inputs": TEXTS | st.lists(TEXTS | st.lists(TEXTS, max_size=3), max_size=4) | VALUES,
            "tasks": st.lists(st.sampled_from(["topic", "tone", "same", "nothing"]), max_size=3) | VALUES,
        },
    ),
    "/classify": st.fixed_dictionaries(
        {},
        optional={
            "input": TEXTS | VALUES,
            "task": st.sampled_from(["topic", "tone", "same"]) | VALUES,
            "model": VALUES,
        },
    ),
    "/v1/moderations": st.fixed_dictionaries({}, optional={"input": TEXTS | st.lists(TEXTS, max_size=3) | VALUES}),
    "/v2/models/model/infer": st.fixed_dictionaries(
        {}, optional={"id": VALUES, "inputs": st.lists(TENSOR, max_size=3) | VALUES, "outputs": VALUES}
    ),
}


def check(server: Any, path: str, body: bytes, headers: dict[str, str]) -> None:
    status, answer, found = server.request("POST", path, body, headers)
    assert status < 500, answer
    assert found["content-type"] == "application/json"
    told = json.loads(answer)
    assert (status == 200) != ("error" in told)
    if status != 200:
        assert isinstance(told["error"]["code"], str) and isinstance(told["error"]["message"], str)


def cases(number: int) -> Any:
    return settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("path", BODIES)
def test_json_of_about_the_right_shape(server: Any, path: str, request: pytest.FixtureRequest) -> None:
    @cases(60)
    @given(BODIES[path] | VALUES)
    def ask(value: Any) -> None:
        check(server, path, json.dumps(value).encode(), {"Content-Type": "application/json"})

    ask()


@cases(100)
@given(
    body=st.binary(max_size=200) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    kind=st.sampled_from(["application/json", "application/json; charset=latin-1", "text/plain", ""]),
    deadline=st.none() | st.from_regex(r"[ -~]{0,14}", fullmatch=True),
)
def test_bytes_and_headers_of_any_shape(server: Any, body: bytes, kind: str, deadline: str | None) -> None:
    check(server, "/predict", body, {"Content-Type": kind} | ({} if deadline is None else {"X-Deadline-Ms": deadline}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_cases_of_schemathesis_an_endpoint(server: Any) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis, to fuzz with it")
    # A schema cannot say which tasks there are, and which of them read pairs.
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    number = int(os.environ.get("ONEPASS_FUZZ_CASES", "10000"))
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")
    faults: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @cases(number)
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call()
            if answer.status_code >= 500 and "readyz" not in case.path:
                faults.append(f"{case.method} {case.path}: {answer.status_code}")
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

        ask()
    assert not faults
