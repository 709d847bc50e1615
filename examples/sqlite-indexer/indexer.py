#!/usr/bin/env python3
"""Stores the events of a NEAR chain's contracts in an SQLite database: indexer.py URL FILE [LAST_HEIGHT].

It reads final blocks from a Troupe node, or from any server of neardata's API. Each block is one transaction of the
database, with its height, so that it continues where it was interrupted and stores nothing twice.
"""

import json
import sqlite3
import sys
import time
import urllib.error
import urllib.request

SCHEMA = """
CREATE TABLE IF NOT EXISTS blocks (height INTEGER PRIMARY KEY, hash TEXT NOT NULL, timestamp_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    height INTEGER NOT NULL REFERENCES blocks, receipt TEXT NOT NULL, log INTEGER NOT NULL,
    contract TEXT NOT NULL, standard TEXT NOT NULL, event TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (receipt, log));
CREATE INDEX IF NOT EXISTS events_by_contract ON events (contract, event, height);
CREATE TABLE IF NOT EXISTS cursor (one INTEGER PRIMARY KEY CHECK (one = 1), height INTEGER NOT NULL);
"""
MAX_REPLY = 256 << 20


def get(url):
    """Returns the JSON at a URL. The node waits with the reply until the block exists, so a timeout is tried again."""
    pause = 0.2
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as reply:
                text = reply.read(MAX_REPLY + 1)
                if len(text) > MAX_REPLY:
                    sys.exit(f"{url}: the reply has more than {MAX_REPLY} bytes")
                return json.loads(text)
        except urllib.error.HTTPError as e:
            if e.code not in (408, 429) and e.code < 500:
                sys.exit(f"{url}: HTTP {e.code}: {e.read(500).decode(errors='replace')}")
            trouble = f"HTTP {e.code}"
        except (OSError, ValueError) as e:
            trouble = e
        print(f"{url}: {trouble}; trying again", file=sys.stderr)
        time.sleep(pause)
        pause = min(2 * pause, 10)


def events(block):
    """Yields the events (NEP-297) of a block, without those of receipts that failed."""
    for shard in block["shards"]:
        for executed in shard["receipt_execution_outcomes"]:
            outcome = executed["execution_outcome"]["outcome"]
            if "Failure" in outcome["status"]:
                continue
            for i, log in enumerate(outcome["logs"]):
                if not log.startswith("EVENT_JSON:"):
                    continue
                try:
                    e = json.loads(log.removeprefix("EVENT_JSON:"))
                    row = (str(e["standard"]), str(e["event"]), json.dumps(e.get("data")))
                except (ValueError, KeyError, TypeError):
                    continue  # any contract may log that
                yield executed["execution_outcome"]["id"], i, outcome["executor_id"], *row


def main(url, file, last=None):
    db = sqlite3.connect(file)
    db.executescript(SCHEMA)
    row = db.execute("SELECT height FROM cursor").fetchone()
    height = row[0] + 1 if row else get(f"{url}/v0/first_block")["block"]["header"]["height"]
    while last is None or height <= last:
        block = get(f"{url}/v0/block/{height}")
        with db:  # one transaction
            if block:  # else no block has this height
                header = block["block"]["header"]
                db.execute("INSERT INTO blocks VALUES (?, ?, ?)", (height, header["hash"], int(header["timestamp_nanosec"])))
                db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", [(height, *e) for e in events(block)])
            db.execute("INSERT INTO cursor VALUES (1, ?) ON CONFLICT DO UPDATE SET height = excluded.height", (height,))
        height += 1


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(sys.argv[1].rstrip("/"), sys.argv[2], *map(int, sys.argv[3:]))
    except KeyboardInterrupt:
        pass
