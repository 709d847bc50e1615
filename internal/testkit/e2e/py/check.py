"""What the scripts share: named steps, and the environment that the Go test sets."""
import inspect
import json
import os
import sys
import time
import traceback

URL = os.environ['NEAR_RPC_URL']
HOME = os.environ.get('NEAR_HOME', '')
_failures = _passed = 0


def validator_key():
    with open(os.path.join(HOME, 'validator_key.json'), encoding='utf-8') as f:
        return json.load(f)


async def step(name, body):
    """Runs one named check, a function or a coroutine function; a failure is printed and the script goes on."""
    global _failures, _passed
    began = time.monotonic()
    try:
        result = body()
        if inspect.isawaitable(result):
            await result
        _passed += 1
        print(f'ok   {name} ({(time.monotonic() - began) * 1000:.0f} ms)')
    except Exception:
        _failures += 1
        print(f'FAIL {name}: {traceback.format_exc()}')


def equal(got, want, what='value'):
    if got != want:
        raise AssertionError(f'{what} = {got!r}, want {want!r}')


def done():
    print(f'{_passed} passed, {_failures} failed')
    sys.exit(1 if _failures else 0)
