"""The plugin's options, in a pytest of its own."""

import pytest

from troupe_sandbox import Sandbox

pytest_plugins = ["pytester"]


def test_options(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntroupe_accounts = 3\ntroupe_balance = 2.5\ntroupe_shards = 2\n")
    pytester.makepyfile(
        """
        def test_it(sandbox, world):
            assert [a.account_id for a in sandbox.accounts] == ["dev0.near", "dev1.near", "dev2.near"]
            assert world.balance("dev2.near") == 25 * 10**23
            assert len(world.call("EXPERIMENTAL_protocol_config", {"finality": "final"})["shard_layout"]) == 1

        def test_world_ended(sandbox):
            assert sandbox.worlds() == []
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_wrong_option(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntroupe_accounts = many\n")
    pytester.makepyfile("def test_it(world): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*troupe_accounts = many*"])


def test_a_node_that_runs_already(pytester: pytest.Pytester, sandbox: Sandbox) -> None:
    pytester.makeini(f"[pytest]\ntroupe_url = {sandbox.url}\n")
    pytester.makepyfile(f"def test_it(sandbox): assert sandbox.url == {sandbox.url!r} and sandbox.pid is None")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    sandbox.mine()


def test_nothing_starts_without_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_it(): assert 'troupe_sandbox' not in sys.modules")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
