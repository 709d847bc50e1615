package bandwidth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func TestStateRoundTripsInNearcoresBorsh(t *testing.T) {
	t.Parallel()
	s := State{Links: []LinkAllowance{{1, 2, 3}, {0xffffffffffffffff, 0, 4}}, SanityCheck: primitives.HashBytes(nil)}
	want := "00" + "02000000" +
		"0100000000000000" + "0200000000000000" + "0300000000000000" +
		"ffffffffffffffff" + "0000000000000000" + "0400000000000000" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	b := borsh.Marshal(&s)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("borsh = %s, want %s", got, want)
	}
	var back State
	if err := borsh.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("decoded %v, %v, want %v", back, err, s)
	}
	for name, in := range map[string][]byte{
		"empty": {}, "tag": append([]byte{1}, b[1:]...), "short": b[:len(b)-1], "trailing": append(bytes.Clone(b), 0),
		"count": {0, 255, 255, 255, 255},
	} {
		t.Run(name, func(t *testing.T) {
			if err := borsh.Unmarshal(in, &back); !errors.Is(err, borsh.ErrInvalid) {
				t.Errorf("%v, want %v", err, borsh.ErrInvalid)
			}
		})
	}
}

func FuzzStateBorsh(f *testing.F) { // every input is refused, or is the one encoding of its value
	for _, s := range []State{{}, {Links: []LinkAllowance{{1, 2, 3}}}} {
		f.Add(borsh.Marshal(&s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var s State
		if borsh.Unmarshal(in, &s) == nil && !bytes.Equal(borsh.Marshal(&s), in) {
			t.Errorf("decode then encode: %x became %x", in, borsh.Marshal(&s))
		}
	})
}
