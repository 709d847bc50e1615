package partialwitness

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func sample() *primitives.ChunkStateWitness {
	w := &primitives.ChunkStateWitness{EpochID: primitives.Hash{1}, AppliedReceipts: primitives.Hash{2}}
	w.Header.Version, w.Header.Signature = primitives.ChunkInnerV5, primitives.ZeroED25519Signature
	w.Main.Base = [][]byte{[]byte("a node"), bytes.Repeat([]byte("value"), 99)}
	return w
}

// TestDataPartsRestorePayload: any DataParts parts restore a payload, and fewer do not. A single
// part has a length prefix only where nearcore writes one.
func TestDataPartsRestorePayload(t *testing.T) {
	t.Parallel()
	payload, err := Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 12; n++ {
		for name, make := range map[string]func(int) (*Coder, error){"witness": WitnessCoder, "deploys": DeploysCoder} {
			c, err := make(n)
			if err != nil {
				t.Fatal(err)
			}
			parts, length, err := c.Cut(payload)
			if err != nil || len(parts) != n || c.TotalParts() != n {
				t.Fatalf("%s in %d: %d parts, %v", name, n, len(parts), err)
			}
			want := len(payload) + 4
			if n == 1 && name == "witness" {
				want = len(payload)
			}
			if length != uint64(want) {
				t.Errorf("%s in %d: length %d, want %d", name, n, length, want)
			}
			for missing := n - c.DataParts(); missing >= 0; missing-- {
				some := append([][]byte(nil), parts...)
				for i := range missing {
					some[(i*5+n)%n] = nil
				}
				if got, err := c.Join(some, length); err != nil || !bytes.Equal(got, payload) {
					t.Errorf("%s in %d without %d: %v", name, n, missing, err)
				}
			}
			few := append([][]byte(nil), parts...)
			for i := range n - c.DataParts() + 1 {
				few[i] = nil
			}
			if _, err := c.Join(few, length); !errors.Is(err, ErrCoding) {
				t.Errorf("%s in %d of too few parts: %v", name, n, err)
			}
		}
	}
	for _, n := range []int{0, -1, 257} {
		if _, err := WitnessCoder(n); !errors.Is(err, ErrCoding) {
			t.Errorf("%d parts: %v", n, err)
		}
	}
	if _, err := WitnessCoder(256); err != nil {
		t.Error(err)
	}
}

// TestPayloadAboveLimitIsRefused: a payload that decompresses to neard's limit is accepted, and one
// with another byte is not, whatever length its zstd frame header states.
func TestPayloadAboveLimitIsRefused(t *testing.T) {
	t.Parallel()
	w := sample()
	fill := MaxRaw - len(w.AppendBorsh(nil)) - 4
	w.Main.Base = append(w.Main.Base, make([]byte, fill))
	payload, err := Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	if _, size, err := Decode(payload); err != nil || size != MaxRaw {
		t.Errorf("%d bytes: %v", size, err)
	}
	w.Main.Base[2] = make([]byte, fill+1)
	if _, err := Encode(w); !errors.Is(err, ErrCoding) {
		t.Errorf("a byte more: %v", err)
	}
	if _, _, err := Decode(packer().fast.EncodeAll(w.AppendBorsh(nil), nil)); !errors.Is(err, ErrCoding) {
		t.Errorf("a byte more arrives: %v", err)
	}
	if _, _, err := Decode(payload[:len(payload)-1]); !errors.Is(err, ErrCoding) {
		t.Errorf("cut short: %v", err)
	}
}

func TestContractsSurviveEncoding(t *testing.T) {
	t.Parallel()
	codes := [][]byte{[]byte("one"), {}, bytes.Repeat([]byte{7}, 100_000)}
	got, err := DecodeContracts(EncodeContracts(codes), MaxRequested)
	if err != nil || len(got) != 3 || !bytes.Equal(got[2], codes[2]) {
		t.Errorf("%d codes, %v", len(got), err)
	}
	if _, err := DecodeContracts([]byte("no frame"), MaxRequested); !errors.Is(err, ErrCoding) {
		t.Errorf("no frame: %v", err)
	}
}

// FuzzDecode: Decode returns a witness or an error for any payload.
func FuzzDecode(f *testing.F) {
	payload, err := Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add(EncodeContracts([][]byte{{1}, {2}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if w, _, err := Decode(in); err == nil {
			if again, err := Encode(w); err != nil {
				t.Errorf("it does not pack again: %v", err)
			} else if back, _, err := Decode(again); err != nil || !bytes.Equal(back.AppendBorsh(nil), w.AppendBorsh(nil)) {
				t.Errorf("packed again it is another: %v", err)
			}
		} else if !errors.Is(err, ErrCoding) {
			t.Errorf("%v", err)
		}
		if _, err := DecodeContracts(in, MaxRequested); err != nil && !errors.Is(err, ErrCoding) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzJoin: Join returns an error for inconsistent parts.
func FuzzJoin(f *testing.F) {
	f.Add([]byte("some"), []byte("part"), uint64(7), uint8(3))
	f.Fuzz(func(t *testing.T, a, b []byte, length uint64, n uint8) {
		for _, coder := range []func(int) (*Coder, error){WitnessCoder, DeploysCoder} {
			c, err := coder(int(n))
			if err != nil {
				continue
			}
			parts := append([][]byte{a, b}, make([][]byte, int(n))...)[:n]
			if payload, err := c.Join(parts, length); err == nil && n > 1 && uint64(len(payload)+4) != length {
				t.Errorf("%d bytes of a length of %d", len(payload), length)
			}
		}
	})
}

// TestTooManyContractsAreNotAllocated: a short message with very many contracts is rejected before
// they are allocated.
func TestTooManyContractsAreNotAllocated(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MaxRequested, MaxRequested + 1, 1 << 20} {
		list := make([][]byte, n)
		for i := range list {
			list[i] = fmt.Appendf(nil, "%x", i)
		}
		codes, err := DecodeContracts(EncodeContracts(list), MaxRequested)
		if bad := n > MaxRequested; bad != errors.Is(err, ErrCoding) || !bad && len(codes) != n {
			t.Errorf("%d contracts: %d, %v", n, len(codes), err)
		}
	}
}
