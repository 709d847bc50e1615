package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestChangedBytesHaveNearcoresVerdict sets each byte of three small modules to each value and
// compares with nearcore's verdict: the size of the instrumented module, or the PrepareError. It
// tests one byte in eight; with TROUPE_REPLAY=all every byte.
func TestChangedBytesHaveNearcoresVerdict(t *testing.T) {
	every := 8
	if os.Getenv("TROUPE_REPLAY") == "all" {
		every = 1
	}
	w := &parameters.MustGet(parameters.June(86)).Wasm
	var module []byte
	modules, changed, bad := 0, 0, 0
	type line struct {
		Wasm     []byte
		At       int
		Verdicts []verdicts
	}
	for line := range testutil.Vectors[line](t, "testdata/edges.jsonl.gz") {
		if line.Wasm != nil {
			module = line.Wasm
			modules++
			continue
		}
		if line.At%every != 0 {
			continue
		}
		code := slices.Clone(module)
		value := 0
		for _, same := range line.Verdicts {
			for range same.count {
				code[line.At] = byte(value)
				changed++
				if got := judge(code, w); got != same.what {
					if bad++; bad <= 40 {
						t.Errorf("module %d, byte %d, 0x%02x for 0x%02x: %s, want %s", modules, line.At, value, module[line.At], got, same.what)
					}
				}
				value++
			}
		}
		if value != 256 {
			t.Fatalf("byte %d: %d verdicts", line.At, value)
		}
	}
	if modules != 3 || changed < 40_000 {
		t.Errorf("%d modules, %d changes", modules, changed)
	}
	t.Logf("%d changes, %d of them judged otherwise", changed, bad)
}

// verdicts is a run of equal verdicts.
type verdicts struct {
	what  string
	count int
}

func (v *verdicts) UnmarshalJSON(b []byte) error {
	pair := []any{&v.what, &v.count}
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("a verdict and a count: %s, %w", b, err)
	}
	return nil
}

func judge(code []byte, w *parameters.Wasm) string {
	m, err := Prepare(code, w)
	var why primitives.PrepareError
	switch {
	case err == nil:
		return strconv.Itoa(m.Size)
	case errors.As(err, &why):
		return why.String()
	}
	return err.Error()
}
