package consensus

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/primitives"
)

func publicKey(seed string) primitives.PublicKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, seed).PublicKey()
}

// TestNewKeyWaitsForBlocks: the rule of KeyWait, head by head. Each head is followed by what the key
// may do there: "-" it waits for a newer block, a number is the number of heights left, "signs".
func TestNewKeyWaitsForBlocks(t *testing.T) {
	const seen = 1000
	type head struct {
		height    primitives.Height
		timestamp uint64
		want      string
	}
	for _, c := range []struct {
		name   string
		rule   KeyWait
		state  keyState
		unused bool
		heads  []head
	}{
		{"no wait", KeyWait{}, keySeen, false, []head{{5, 10, "signs"}}},
		{"old blocks do not count", KeyWait{Blocks: 10}, keySeen, false, []head{{5, 10, "-"}, {90_000, 999, "-"},
			{90_001, 1000, "10"}, {90_004, 1003, "7"}, {90_011, 1009, "signs"}, {90_012, 1010, "signs"}}},
		{"skipped heights count", KeyWait{Blocks: 10}, keySeen, false, []head{{7, 1000, "10"}, {40, 1001, "signs"}}},
		{"a branch that is lower", KeyWait{Blocks: 10}, keySeen, false,
			[]head{{7, 1000, "10"}, {6, 1001, "11"}, {17, 1002, "signs"}}},
		{"a clock that is ahead only waits longer", KeyWait{Blocks: 2}, keySeen, false,
			[]head{{7, 990, "-"}, {8, 999, "-"}, {9, 1000, "2"}}},
		{"the longest wait", KeyWait{Blocks: ^primitives.Height(0)}, keySeen, false,
			[]head{{7, 1000, "18446744073709551608"}}},
		{"a key that has signed here", KeyWait{Blocks: 10}, keyReady, false, []head{{5, 10, "signs"}}},
		{"a key that replaces another before it is valid", KeyWait{Blocks: 10}, keySeen, true,
			[]head{{5, 999, "-"}, {6, 1000, "signs"}}},
		{"from a height", KeyWait{Blocks: 1000, From: 8}, keySeen, false,
			[]head{{5, 10, "2"}, {6, 11, "1"}, {7, 12, "signs"}}},
		{"from a height that has passed", KeyWait{Blocks: 1000, From: 1}, keySeen, false, []head{{5, 10, "signs"}}},
		{"a known key from a height", KeyWait{From: 8}, keyReady, false, []head{{5, 10, "2"}, {7, 12, "signs"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &keyRecord{key: publicKey("a"), seen: seen, state: c.state}
			for _, h := range c.heads {
				before := *r
				at := keyHead{height: h.height, timestamp: h.timestamp}
				waiting, changed := r.advance(at, c.rule, func() bool { return c.unused })
				got := "signs"
				switch {
				case waiting.Key != "" && waiting.From == 0:
					if got = "-"; waiting.Left != c.rule.Blocks {
						t.Errorf("head %d: %d heights left before the wait begins", h.height, waiting.Left)
					}
				case waiting.Key != "":
					if got = fmt.Sprint(waiting.Left); waiting.From != h.height+waiting.Left {
						t.Errorf("head %d: from %d, with %d left", h.height, waiting.From, waiting.Left)
					}
				}
				if got != h.want {
					t.Errorf("head %d: %s, want %s", h.height, got, h.want)
				}
				if begun := before.state != r.state && r.state == keyMarked; begun && !changed {
					t.Errorf("head %d: the beginning of the wait is not persisted", h.height)
				}
			}
		})
	}
}

// TestKeyDoesNotWaitOrSignWhileBehind: while the head is far below the highest known block, the wait
// neither begins nor ends.
func TestKeyDoesNotWaitOrSignWhileBehind(t *testing.T) {
	r := &keyRecord{key: publicKey("a"), seen: 1000}
	for _, c := range []struct {
		height primitives.Height
		behind bool
		want   KeyWaiting
	}{
		{5, true, KeyWaiting{Left: 10, Seen: 1000}},
		{9, false, KeyWaiting{From: 19, Left: 10}},
		{19, true, KeyWaiting{From: 19, Left: 1}},
		{25, true, KeyWaiting{From: 19, Left: 1}},
		{26, false, KeyWaiting{}},
	} {
		if c.want.Left > 0 {
			c.want.Key = r.key
		}
		at := keyHead{c.height, 2000, c.behind}
		if got, _ := r.advance(at, KeyWait{Blocks: 10}, func() bool { return false }); got != c.want {
			t.Errorf("head %+v: %+v, want %+v", at, got, c.want)
		}
	}
}

// TestReturnedKeyWaits: a key that has signed here waits again if the node was without it for long
// and the chain has grown meanwhile. The record of a wait that is not over keeps its time. A clock
// that is behind the recorded time makes no wait shorter.
func TestReturnedKeyWaits(t *testing.T) {
	const (
		day    = 24 * 3600 * 1000 * ms
		minute = 60 * 1000 * ms
	)
	rule := KeyWait{Blocks: 43200} // 12 hours
	for _, c := range []struct {
		name         string
		rule         KeyWait
		state        keyState
		away         int64
		last, height primitives.Height // of the last signature, and of the first new head
		want         string
		changed      bool
	}{
		{"a restart", rule, keyReady, day / 3, 1000, 900_000, "signs", false},
		{"a day without it", rule, keyReady, day, 1000, 900_000, "900000+43200", true},
		{"a day in which the chain stood still", rule, keyReady, day, 1000, 1400, "signs", true},
		{"a day, and no record of a height", rule, keyReady, day, 0, 1400, "1400+43200", true},
		{"the clock was a minute ahead", rule, keyReady, -minute, 1000, 1400, "signs", false},
		{"the clock is behind the last signature", rule, keyReady, -day, 1000, 900_000, "-", true},
		{"the same, and the chain stood still", rule, keyReady, -day, 1000, 1400, "-", true},
		{"no rule", KeyWait{}, keyReady, day, 1000, 900_000, "signs", false},
		{"no rule, and the clock is behind", KeyWait{}, keyReady, -day, 1000, 900_000, "signs", false},
		{"from a height", KeyWait{Blocks: 9, From: 5}, keyReady, day, 1000, 900_000, "signs", false},
		{"a restart while it waits", rule, keySeen, day, 0, 900_000, "900000+43200", false},
		{"the clock is behind the time at which it came", rule, keySeen, -day, 0, 900_000, "-", false},
		{"the clock is behind while it waits", rule, keyMarked, -day, 800_000, 820_000, "820000+23200", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := 10 * day
			seen := uint64(int64(now) - c.away)
			r := &keyRecord{key: publicKey("a"), state: c.state, seen: seen}
			if c.state == keyMarked {
				r.first = c.last
			}
			if got := r.take(uint64(now), c.last, c.rule); got != c.changed {
				t.Errorf("changed %v, want %v", got, c.changed)
			}
			if r.state != keyReady && r.seen < seen {
				t.Errorf("blocks after %d count, want %d", r.seen, seen)
			}
			if c.state == keyReady && c.changed {
				if w, _ := r.advance(keyHead{height: c.last, timestamp: uint64(now) - 1}, c.rule, nil); w.Key == "" {
					t.Error("signs before it knows a new block")
				}
			}
			show := func(at uint64) string {
				w, _ := r.advance(keyHead{height: c.height, timestamp: at}, c.rule, func() bool { return false })
				switch {
				case w.Key == "":
					return "signs"
				case w.From == 0:
					return "-"
				}
				return fmt.Sprintf("%d+%d", w.From-w.Left, w.Left)
			}
			if got := show(uint64(now)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if c.want == "-" { // the block that is newer than the recorded time
				want := fmt.Sprintf("%d+43200", c.height)
				if c.last > 0 && c.height < c.last+c.rule.Blocks {
					want = "signs"
				}
				if got := show(seen); got != want {
					t.Errorf("at a newer block: %s, want %s", got, want)
				}
			}
		})
	}
	for blocks, want := range map[primitives.Height]int64{
		1: 600_000 * ms, 601: 601_000 * ms, ^primitives.Height(0): 1 << 32 * 1000 * ms,
	} {
		if got := (KeyWait{Blocks: blocks}).standstill(); got != want {
			t.Errorf("%d blocks: %d ms, want %d", blocks, got/ms, want/ms)
		}
	}
}

// TestKeysOfSnapshotAreNew: without its keys, a record still refuses contradictions, and every key is
// new to it, also if the record is older than the list of keys. A key of another record that is merged
// with it does not wait.
func TestKeysOfSnapshotAreNew(t *testing.T) {
	ready := keyRecord{account: "alice", key: publicKey("a"), seen: 7, state: keyReady, first: 5}
	snapshot := &Signatures{Target: 9, keys: []keyRecord{ready}}
	old := &Signatures{Target: 9}
	local := (&Signatures{Target: 3, keys: []keyRecord{ready}}).AppendBorsh(nil)
	state := func(row []byte) keyState {
		t.Helper()
		s, err := ReadSignatures(row)
		if err != nil || s.Target != 9 {
			t.Fatalf("%+v, %v", s, err)
		}
		r, _ := s.key("alice", publicKey("a"), 8)
		return r.state
	}
	for _, s := range []*Signatures{snapshot, old} {
		row := s.AppendBorsh(nil)
		if got := state(row); got != keyReady {
			t.Errorf("before: %v", got)
		}
		bare, err := WithoutKeys(row)
		if err != nil {
			t.Fatal(err)
		}
		if got := state(bare); got != keySeen {
			t.Errorf("without keys: %v", got)
		}
		merged, err := MergeSignatures(bare, local)
		if err != nil {
			t.Fatal(err)
		}
		if got := state(merged); got != keyReady {
			t.Errorf("merged: %v", got)
		}
	}
	if row, err := WithoutKeys(nil); err != nil || row != nil {
		t.Errorf("no record: %x, %v", row, err)
	}
}

// futureChain is a Chain whose headers all have enough approvals.
type futureChain struct{ engineOf }

func (futureChain) Voted(*primitives.BlockHeader) (bool, error) { return true, nil }

// TestFutureBlockShowsThatClockIsBehind: a block that is refused because it is ahead of the clock
// proves that the node is behind. Other refusals prove nothing.
func TestFutureBlockShowsThatClockIsBehind(t *testing.T) {
	for _, c := range []struct {
		err  error
		key  primitives.PublicKey
		want bool
	}{
		{fmt.Errorf("block: %w", chain.InvalidBlockFutureTime), "k", true},
		{chain.InvalidBlockPastTime, "k", false},
		{chain.InvalidBlockFutureTime, "", false},
	} {
		n := &Node{e: futureChain{}, out: new(Out), o: Options{HeaderChain: noHeaders{}}, head: &head{height: 5},
			waiting: KeyWaiting{Key: c.key}, blocks: importer.New(importer.Options{Engine: futureChain{}, Tip: 5})}
		b := &primitives.Block{Header: new(primitives.BlockHeader)}
		b.Header.Height = 5000
		n.emit(importer.Dropped{Block: b, Err: c.err})
		if got := n.isBehind(); got != c.want {
			t.Errorf("%v: behind %v, want %v", c.err, got, c.want)
		}
	}
}

// TestKeyRecordsSurviveStorage: the records of keys are stored with the signatures.
func TestKeyRecordsSurviveStorage(t *testing.T) {
	s := new(Signatures)
	a, made := s.key("alice", publicKey("a"), 7)
	if !made {
		t.Fatal("the key is known")
	}
	a.state, a.first = keyMarked, 40
	if _, made := s.key("alice", publicKey("b"), 8); !made {
		t.Fatal("another key is known")
	}
	if _, made := s.key("bob", publicKey("a"), 8); !made {
		t.Fatal("the key is known for another account")
	}
	s.vote(9)
	row := s.AppendBorsh(nil)
	if len(row) != s.size() {
		t.Errorf("a row of %d bytes, size returns %d", len(row), s.size())
	}
	again, err := ReadSignatures(row)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("%v: %+v, want %+v", err, again, s)
	}
	if r, made := again.key("alice", publicKey("a"), 99); made || r.seen != 7 || r.first != 40 {
		t.Errorf("made %v: %+v", made, r)
	}
	for i := range 2 * maxKeys {
		again.key("alice", publicKey(fmt.Sprint(i)), 10)
	}
	if len(again.keys) != maxKeys {
		t.Errorf("%d keys are recorded, want %d", len(again.keys), maxKeys)
	}
	if _, made := again.key("alice", publicKey("a"), 99); !made {
		t.Error("a dropped key is known")
	}
	bad := append([]byte(nil), (&Signatures{keys: []keyRecord{{state: 7}}}).AppendBorsh(nil)...)
	if _, err := ReadSignatures(bad); err == nil {
		t.Error("an unknown state of a key is accepted")
	}
}

// TestRecordWithoutKeysKnowsItsKey: a record that an earlier version wrote has signatures and no
// keys. The node's key made them, so it does not wait. A second key does.
func TestRecordWithoutKeysKnowsItsKey(t *testing.T) {
	s, err := ReadSignatures((&Signatures{Target: 9}).AppendBorsh(nil))
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := s.key("alice", publicKey("a"), 7); r.state != keyReady {
		t.Errorf("the key of the record waits: %+v", r)
	}
	if r, _ := s.key("alice", publicKey("b"), 7); r.state != keySeen {
		t.Errorf("a second key does not wait: %+v", r)
	}
	if s, err = ReadSignatures(nil); err != nil {
		t.Fatal(err)
	}
	if r, _ := s.key("alice", publicKey("a"), 7); r.state != keySeen {
		t.Errorf("without a record the key does not wait: %+v", r)
	}
}

// TestMergedKeysWaitLonger: of two records of a key, the one that waits longer counts, in either
// order. A key that only one record has keeps its state.
func TestMergedKeysWaitLonger(t *testing.T) {
	rec := func(state keyState, seen uint64, first primitives.Height) keyRecord {
		return keyRecord{account: "alice", key: publicKey("a"), seen: seen, state: state, first: first}
	}
	for _, c := range []struct{ a, b, want keyRecord }{
		{rec(keyReady, 1, 5), rec(keyReady, 2, 6), rec(keyReady, 2, 6)},
		{rec(keyReady, 1, 5), rec(keyMarked, 2, 9), rec(keyMarked, 2, 9)},
		{rec(keyMarked, 3, 5), rec(keyMarked, 2, 9), rec(keyMarked, 3, 9)},
		{rec(keyMarked, 3, 5), rec(keySeen, 2, 0), rec(keySeen, 3, 0)},
	} {
		other := keyRecord{account: "alice", key: publicKey("b"), state: keyReady}
		a := &Signatures{Target: 1, keys: []keyRecord{c.a}}
		b := &Signatures{Target: 2, keys: []keyRecord{other, c.b}}
		for _, rows := range [][2][]byte{{a.AppendBorsh(nil), b.AppendBorsh(nil)}, {b.AppendBorsh(nil), a.AppendBorsh(nil)}} {
			row, err := MergeSignatures(rows[0], rows[1])
			if err != nil {
				t.Fatal(err)
			}
			s, err := ReadSignatures(row)
			if err != nil {
				t.Fatal(err)
			}
			if r, made := s.key("alice", publicKey("a"), 99); made || *r != c.want {
				t.Errorf("%+v and %+v: %+v", c.a, c.b, r)
			}
			if r, made := s.key("alice", publicKey("b"), 99); made || *r != other {
				t.Errorf("the key of one record: made %v, %+v", made, r)
			}
		}
	}
}
