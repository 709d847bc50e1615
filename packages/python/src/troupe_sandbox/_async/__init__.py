"""The asynchronous half. The build writes the synchronous half, _sync, from it."""
