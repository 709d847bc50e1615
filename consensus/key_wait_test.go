package consensus

import (
	"fmt"
	"reflect"
	"testing"

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
		{"old blocks do not count", KeyWait{Blocks: 10}, keySeen, false,
			[]head{{5, 10, "-"}, {90_000, 999, "-"}, {90_001, 1000, "10"}, {90_004, 1003, "7"}, {90_011, 1009, "signs"}, {90_012, 1010, "signs"}}},
		{"skipped heights count", KeyWait{Blocks: 10}, keySeen, false, []head{{7, 1000, "10"}, {40, 1001, "signs"}}},
		{"a branch that is lower", KeyWait{Blocks: 10}, keySeen, false, []head{{7, 1000, "10"}, {6, 1001, "11"}, {17, 1002, "signs"}}},
		{"a clock that is ahead only waits longer", KeyWait{Blocks: 2}, keySeen, false, []head{{7, 990, "-"}, {8, 999, "-"}, {9, 1000, "2"}}},
		{"the longest wait", KeyWait{Blocks: ^primitives.Height(0)}, keySeen, false, []head{{7, 1000, "18446744073709551608"}}},
		{"a key that has signed here", KeyWait{Blocks: 10}, keyReady, false, []head{{5, 10, "signs"}}},
		{"a key that replaces another before it is valid", KeyWait{Blocks: 10}, keySeen, true, []head{{5, 999, "-"}, {6, 1000, "signs"}}},
		{"from a height", KeyWait{Blocks: 1000, From: 8}, keySeen, false, []head{{5, 10, "2"}, {6, 11, "1"}, {7, 12, "signs"}}},
		{"from a height that has passed", KeyWait{Blocks: 1000, From: 1}, keySeen, false, []head{{5, 10, "signs"}}},
		{"a known key from a height", KeyWait{From: 8}, keyReady, false, []head{{5, 10, "2"}, {7, 12, "signs"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &keyRecord{key: publicKey("a"), seen: seen, state: c.state}
			for _, h := range c.heads {
				before := *r
				waiting, changed := r.advance(h.height, h.timestamp, c.rule, func() bool { return c.unused })
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
