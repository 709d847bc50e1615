package curve

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// testdata/vectors.gz: lines of a function's short name, its arguments in hex ("-" for none) and
// the answer of the crates that neard calls, as it calls them: blst 0.3.11, zeropool-bn 0.5.11,
// p256 0.13.2, ed25519-dalek 2.2.0 and secp256k1 0.27.0, driven by testdata/oracle. Made with
//
//	cargo build --release --manifest-path testdata/oracle/Cargo.toml --target-dir
//	      /tmp/curve-oracle
//	go test -run TestRecordedCallsAreReproduced -oracle /tmp/curve-oracle/release/oracle -write
//
// and with -inputs and -seed in place of -write the same compares any number of others.
var (
	oracle = flag.String("oracle", "", "program to compare with")
	write  = flag.Bool("write", false, "write testdata/vectors.gz from what -oracle says")
	seed   = flag.Int64("seed", 1, "of the inputs for -oracle")
	inputs = flag.Int("inputs", 1500, "number of inputs for -oracle")
)

// functions by their short name; each gives what the oracle prints after the arguments.
var functions = map[string]func(args [][]byte, fix bool) string{
	"bn_mul": func(a [][]byte, _ bool) string {
		out, err := AltBN128G1Multiexp(a[0])
		return answer(out[:], true, err)
	},
	"bn_sum": func(a [][]byte, _ bool) string { out, err := AltBN128G1Sum(a[0]); return answer(out[:], true, err) },
	"bn_pair": func(a [][]byte, _ bool) string {
		out, err := AltBN128PairingCheck(a[0])
		return answer(boolean(out), true, err)
	},
	"p1_sum": bls(BLS12381P1Sum),
	"p2_sum": bls(BLS12381P2Sum),
	"p1_mul": bls(BLS12381G1Multiexp),
	"p2_mul": bls(BLS12381G2Multiexp),
	"map1":   bls(BLS12381MapFpToG1),
	"map2":   bls(BLS12381MapFp2ToG2),
	"p1_dec": bls(BLS12381P1Decompress),
	"p2_dec": bls(BLS12381P2Decompress),
	"pair": func(a [][]byte, _ bool) string {
		code, err := BLS12381PairingCheck(a[0])
		return answer([]byte{byte(code)}, true, err)
	},
	"p256": func(a [][]byte, _ bool) string {
		if ok, err := P256Signature(a[0]); err != nil || P256Key(a[2]) != nil || !ok {
			return answer([]byte{2}, true, err)
		}
		return answer(boolean(P256Verify(a[0], a[1], a[2])), true, nil)
	},
	"ed25519": func(a [][]byte, _ bool) string {
		if ok, err := Ed25519Signature(a[0]); err != nil || Ed25519Key(a[2]) != nil || !ok {
			return answer([]byte{2}, true, err)
		}
		return answer(boolean(Ed25519Verify(a[0], a[1], a[2])), true, nil)
	},
	"ecrecover": func(a [][]byte, _ bool) string {
		key, ok := ECRecover(a[0], a[1], uint64(a[2][0]), uint64(a[2][1]))
		if !ok {
			return answer([]byte{0}, true, nil)
		}
		return answer(append([]byte{1}, key[:]...), true, nil)
	},
}

func bls(f func([]byte, bool) ([]byte, bool, error)) func([][]byte, bool) string {
	return func(args [][]byte, fix bool) string { return answer(f(args[0], fix)) }
}

func boolean(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

func answer(out []byte, ok bool, err error) string {
	switch {
	case err != nil:
		return "err " + err.Error()
	case !ok:
		return "no"
	}
	return "ok " + hex.EncodeToString(out)
}

// TestRecordedCallsAreReproduced runs every recorded call, or with -oracle new ones.
func TestRecordedCallsAreReproduced(t *testing.T) {
	var lines []string
	if *oracle != "" {
		lines = askOracle(t)
	} else {
		for _, line := range testutil.Lines(t, "testdata/vectors.gz") {
			lines = append(lines, string(line))
		}
	}
	kinds := map[string]int{}
	for _, line := range lines {
		words := strings.SplitN(line, " ", 2)
		name, fix := strings.CutSuffix(words[0], "+fix")
		f := functions[name]
		n := 1
		if name == "p256" || name == "ed25519" || name == "ecrecover" {
			n = 3
		}
		var args [][]byte
		rest := words[1]
		for range n {
			arg, tail, _ := strings.Cut(rest, " ")
			args, rest = append(args, parseArg(arg)), tail
		}
		before := bytes.Join(args, nil)
		got := f(args, fix)
		if got != rest {
			t.Errorf("%s\n  got %s", line, got)
		}
		if !bytes.Equal(bytes.Join(args, nil), before) {
			t.Errorf("%s changed its input", words[0])
		}
		kind, text, _ := strings.Cut(rest, " ")
		if len(text) <= 2 {
			kind = rest
		}
		kinds[name+" "+kind]++
	}
	t.Logf("%d calls: %v", len(lines), kinds)
	if len(lines) < 1000 {
		t.Errorf("only %d vectors", len(lines))
	}
}

func parseArg(s string) []byte {
	if s == "-" {
		return nil
	}
	return unhex(s)
}

func askOracle(t *testing.T) []string {
	m := newMaker(t, *seed)
	var in bytes.Buffer
	for i := range *inputs {
		c := m.next(i)
		in.WriteString(c.name)
		for _, a := range c.args {
			if len(a) == 0 {
				in.WriteString(" -")
			} else {
				fmt.Fprintf(&in, " %x", a)
			}
		}
		in.WriteByte('\n')
	}
	cmd := exec.CommandContext(t.Context(), *oracle)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if *write {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(out)
		z.Close()
		if err := os.WriteFile("testdata/vectors.gz", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}
