package vm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
)

// Tests of the rules for contracts that change with versions 87 and 88.

// callAt is call with the rules of a given protocol version.
func callAt(v parameters.Version, code []byte, method string) *action.Call {
	c := call(code, method, 100*tera)
	cfg := *parameters.MustGet(v)
	c.Block.Config = &cfg
	return c
}

// watData is the bytes of a data segment.
func watData(b []byte) string {
	var s strings.Builder
	for _, x := range b {
		fmt.Fprintf(&s, "\\%02x", x)
	}
	return s.String()
}

// TestMLDSAVerifyMatchesNearcore: near-vm-runner 0.38.0 src/tests/ml_dsa_verify_integration.rs.
func TestMLDSAVerifyMatchesNearcore(t *testing.T) {
	v := newVM(t)
	public, secret := mldsa65.NewKeyFromSeed(&[mldsa65.SeedSize]byte{1})
	msg, sig := bytes.Repeat([]byte{7}, 32), make([]byte, mldsa65.SignatureSize)
	if err := mldsa65.SignTo(secret, msg, nil, false, sig); err != nil {
		t.Fatal(err)
	}
	key := public.Bytes()
	tampered, wrong := bytes.Clone(msg), bytes.Clone(key)
	tampered[0] ^= 1
	wrong[0] ^= 1
	const invalid = `{"ExecutionError":"ML-DSA-65 signature verification error: invalid %s length: expected the input of %d bytes, but %d was given"}`
	for _, test := range []struct {
		name           string
		msg, key       []byte
		sigLen, keyLen int
		version        parameters.Version
		want           uint64
		err            string
	}{
		{"valid", msg, key, 3309, 1952, parameters.Release(87), 1, ""},
		{"valid at 88", msg, key, 3309, 1952, parameters.Release(88), 1, ""},
		{"tampered message", tampered, key, 3309, 1952, parameters.Release(87), 0, ""},
		{"another key", msg, wrong, 3309, 1952, parameters.Release(87), 0, ""},
		{"signature length", msg, key, 3308, 1952, parameters.Release(87), 0, fmt.Sprintf(invalid, "signature", 3309, 3308)},
		{"key length", msg, key, 3309, 1951, parameters.Release(87), 0, fmt.Sprintf(invalid, "key", 1952, 1951)},
		{"before 87", msg, key, 3309, 1952, parameters.Release(86), 0, linkError},
		{"june", msg, key, 3309, 1952, parameters.June(86), 0, linkError},
	} {
		t.Run(test.name, func(t *testing.T) {
			code := wat(t, fmt.Sprintf(`(module
			(import "env" "ml_dsa_verify" (func $verify (param i64 i64 i64 i64 i64 i64) (result i64)))
			(import "env" "value_return" (func $return (param i64 i64)))
			(memory 1)
			(data (i32.const 0) "%s") (data (i32.const 4096) "%s") (data (i32.const 8192) "%s")
			(func (export "main")
				(i64.store (i32.const 12288) (call $verify (i64.const %d) (i64.const 0) (i64.const 32) (i64.const 4096) (i64.const %d) (i64.const 8192)))
				(call $return (i64.const 8) (i64.const 12288))))`, watData(sig), watData(test.msg), watData(test.key), test.sigLen, test.keyLen))
			out, err := v.run(callAt(test.version, code, "main"), &world{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if out.Err != nil {
				got = string(out.Err.AppendJSON(nil))
			}
			if got != test.err || test.err == "" && binary.LittleEndian.Uint64(out.Return.Value) != test.want {
				t.Errorf("%s, returned %x, want %s, %d", got, out.Return.Value, test.err, test.want)
			}
		})
	}
}

// TestUniversalStateInitToAccountIDOfContract: near-vm-runner 0.38.0
// src/tests/universal_state_init_to_account_id_integration.rs, with bytes that have its mock's
// errors.
func TestUniversalStateInitToAccountIDOfContract(t *testing.T) {
	const id = "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g"
	status := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	twice := []byte{0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	code := func(init []byte, result string) []byte {
		body := `(local $status i64)
			(local.set $status (call $derive (i64.const %d) (i64.const 0) (i64.const 0)))
			(if (i64.eqz (local.get $status))
				(then (call $return (i64.const -1) (i64.const 0)))
				(else (i64.store (i32.const 512) (local.get $status)) (call $return (i64.const 8) (i64.const 512))))`
		if result == "" {
			body = `(call $derive (i64.const %d) (i64.const 0) (i64.const 0))`
		}
		return wat(t, fmt.Sprintf(`(module
			(import "env" "universal_state_init_to_account_id" (func $derive (param i64 i64 i64) %s))
			(import "env" "value_return" (func $return (param i64 i64)))
			(memory 1) (data (i32.const 0) "%s") (func (export "main") `+body+`))`, result, watData(init), len(init)))
	}
	v := newVM(t)
	for _, test := range []struct {
		name    string
		code    []byte
		version parameters.Version
		lenient bool
		want    string
		err     string
	}{
		{"canonical", code(make([]byte, 10), "(result i64)"), parameters.Release(88), false, id, ""},
		{"malformed", code([]byte{7}, "(result i64)"), parameters.Release(88), false, status(1), ""},
		{"not canonical", code(twice, "(result i64)"), parameters.Release(88), false, status(2), ""},
		{"lenient", code(make([]byte, 10), "(result i64)"), parameters.Release(88), true, id, ""},
		{"at 87", code(make([]byte, 10), "(result i64)"), parameters.Release(87), false, "", linkError},
		{"in June", code(make([]byte, 10), "(result i64)"), parameters.June(86), false, "", linkError},
		{"type of a release candidate", code(make([]byte, 10), ""), parameters.Release(88), false, "",
			"{\"ExecutionError\":\"Link Error: types incompatible: expected type `(func (param i64 i64 i64))`, found type `(func (param i64 i64 i64) (result i64))`\"}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := callAt(test.version, test.code, "main")
			if test.lenient {
				c.Block.Config.Wasm.CanonicalUniversalStateInit = false
			}
			out, err := v.run(c, &world{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if out.Err != nil {
				got = string(out.Err.AppendJSON(nil))
			}
			if got != test.err || string(out.Return.Value) != test.want {
				t.Errorf("%s, returned %q, want %s, %q", got, out.Return.Value, test.err, test.want)
			}
		})
	}
}

// TestHostFunctionsNameTheirFirstVersion checks that From of each host function agrees with the
// parameters of all versions.
func TestHostFunctionsNameTheirFirstVersion(t *testing.T) {
	for i := range logic.Functions {
		f := &logic.Functions[i]
		for p := parameters.OldestProtocol; p <= 88; p++ {
			if has := f.In(&parameters.MustGet(parameters.Release(p)).Wasm); has != (p >= f.From) {
				t.Errorf("%s: at %d %v, first version %d", f.Name, p, has, f.From)
			}
		}
		if f.In(&parameters.MustGet(parameters.June(86)).Wasm) != (f.From < 87) {
			t.Errorf("%s: june", f.Name)
		}
	}
}

// missing returns the names in a link error.
func missing(e *action.LinkError) (out []string) {
	for i := range e.Missing {
		out = append(out, e.Missing[i].String())
	}
	return out
}

// TestLinkErrorsNameMissingImports checks that the outcome of a contract with missing imports is
// nearcore's, and that its Cause has the names of the imports, also if the module was loaded from
// disk.
func TestLinkErrorsNameMissingImports(t *testing.T) {
	const (
		sha3      = "env.sha3_256 (since protocol version 87)"
		universal = "env.promise_batch_action_universal_state_init (since protocol version 88)"
		nope      = "env.nope (no known protocol version has it)"
		input     = "env.input (types incompatible: expected type `(func (param i32))`, found type `(func (param i64))`)"
	)
	imports := `(import "env" "input" (func (param i64)))
		(import "env" "promise_batch_action_universal_state_init" (func (param i64 i64 i64 i64)))
		(import "env" "sha3_256" (func (param i64 i64 i64))) (import "env" "sha3_256" (func (param i64 i64 i64)))`
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `(import "env" "f%d" (func))`, i)
	}
	main := `(func (export "main"))`
	dir := t.TempDir()
	for _, from := range []string{"compiled", "disk"} {
		v := vmOf(t, Options{Dir: dir})
		for _, test := range []struct {
			name    string
			imports string
			version parameters.Version
			want    []string
			more    int
		}{
			{"june", imports, parameters.June(86), []string{universal, sha3}, 0},
			{"86", imports, parameters.Release(86), []string{universal, sha3}, 0},
			{"87", imports, parameters.Release(87), []string{universal}, 0},
			{"88", imports, parameters.Release(88), nil, 0},
			{"unknown", imports + `(import "env" "nope" (func))`, parameters.Release(87), []string{universal, nope}, 0},
			{"unknown, 88", imports + `(import "env" "nope" (func))`, parameters.Release(88), []string{nope}, 0},
			{"types", `(import "env" "input" (func (param i32)))`, parameters.Release(88), []string{input}, 0},
			{"many", many.String(), parameters.Release(88), nil, 40 - action.MaxMissingImports},
		} {
			code := wat(t, "(module "+test.imports+main+")")
			out, err := v.run(callAt(test.version, code, "main"), &world{})
			if err != nil {
				t.Fatal(err)
			}
			var link *action.LinkError
			if !errors.As(out.Cause, &link) {
				if test.want != nil || test.more > 0 || out.Err != nil {
					t.Errorf("%s, %s: %s has the cause %v", from, test.name, ended(&out), out.Cause)
				}
				continue
			}
			if text := string(out.Err.AppendJSON(nil)); !strings.Contains(text, "Link Error: ") || strings.Contains(text, "env.") {
				t.Errorf("%s, %s: %s", from, test.name, text)
			}
			if got := missing(link); test.want != nil && !slices.Equal(got, test.want) || link.More != test.more {
				t.Errorf("%s, %s: %q and %d more, want %q and %d", from, test.name, got, link.More, test.want, test.more)
			}
		}
		v.Close()
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) < 5 {
			t.Errorf("%d files, %v", len(files), err)
		}
	}
}

// TestImportNamesAreTruncatedInLinkError checks that long import names, of up to 100,000 bytes, are
// truncated in a LinkError.
func TestImportNamesAreTruncatedInLinkError(t *testing.T) {
	v := newVM(t)
	code := wat(t, `(module (import "env" "`+strings.Repeat("é", 40_000)+`" (func)) (func (export "main")))`)
	out, err := v.run(callAt(parameters.Release(88), code, "main"), &world{})
	var link *action.LinkError
	if err != nil || !errors.As(out.Cause, &link) || len(link.Error()) > 300 || !strings.Contains(link.Error(), "éé...") {
		t.Errorf("%v, %v", err, out.Cause)
	}
}

// TestDeployedCodeWithoutImportsIsReported checks that deployed code with missing imports is
// reported with the account that submitted it.
func TestDeployedCodeWithoutImportsIsReported(t *testing.T) {
	var mu sync.Mutex
	var reported []string
	v := vmOf(t, Options{Unlinked: func(submitter primitives.AccountID, code primitives.Hash, e *action.LinkError) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, fmt.Sprint(submitter, " ", code, " ", missing(e)))
	}})
	code := wat(t, `(module (import "env" "sha3_512" (func (param i64 i64 i64))) (func (export "main")))`)
	for _, version := range []parameters.Version{parameters.Release(87), parameters.Release(86)} {
		<-v.Warm(action.CodeFrom{Submitter: "dev.near"}, code, &parameters.MustGet(version).Wasm)
	}
	<-v.Warm(action.CodeFrom{Submitter: "dev.near"}, wat(t, simple), &parameters.MustGet(parameters.Release(86)).Wasm)
	<-v.Warm(action.CodeFrom{Submitter: "dev.near"}, []byte("no wasm"), &parameters.MustGet(parameters.Release(86)).Wasm)
	mu.Lock()
	defer mu.Unlock()
	want := []string{fmt.Sprint("dev.near ", primitives.HashBytes(code), " [env.sha3_512 (since protocol version 87)]")}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// TestLoadingErrorBurnsFeeFrom87: a module that does not load burns the loading fee from 87 on,
// with the figure of near-vm-runner 0.38.0 src/tests/runtime_errors.rs:27.
func TestLoadingErrorBurnsFeeFrom87(t *testing.T) {
	v := newVM(t)
	code := manyGlobals(100_000)
	for version, burnt := range map[parameters.Version]primitives.Gas{
		parameters.Release(85): 0, parameters.Release(86): 0, parameters.Release(87): 544_727_607_058, parameters.Release(88): 544_727_607_058,
		parameters.June(85): 0, parameters.June(86): 544_727_607_058,
	} {
		out, err := v.run(callAt(version, code, "main"), &world{})
		if err != nil {
			t.Fatal(err)
		}
		if out.GasBurnt != burnt || out.Err == nil || !strings.HasPrefix(out.Err.Message, "Loading Error: ") {
			t.Errorf("%v: burnt %d, %v, want %d", version, out.GasBurnt, out.Err, burnt)
		}
	}
}

// TestLocalsRuleOf87SharesOneCompilation: code that has few enough locals for its size is compiled
// once for the versions before and from 87, in either order, and after a restart. Code with too
// many is refused at 87 and runs where 86 is in force. Which rule is broken first depends on the
// version.
func TestLocalsRuleOf87SharesOneCompilation(t *testing.T) {
	few, many := wat(t, simple), largeContract(1, 100, 0)
	broken := bytes.Clone(many)
	broken[len(broken)-1] = 1 // a nop in place of the end
	const refused, malformed = "TooManyLocals", "Deserialization"
	v86, v87, v88, june := parameters.Release(86), parameters.Release(87), parameters.Release(88), parameters.June(86)
	for _, test := range []struct {
		name     string
		code     []byte
		versions []parameters.Version
		want     []string // the errors of calls, empty: none
		builds   uint64
	}{
		{"few", few, []parameters.Version{v86, v87, v88, june}, []string{"", "", "", ""}, 1},
		{"few, first at 88", few, []parameters.Version{v88, v86, v87}, []string{"", "", ""}, 1},
		{"too many", many, []parameters.Version{v86, v87, v88, v86, june}, []string{"", refused, refused, "", ""}, 2},
		{"too many, first at 87", many, []parameters.Version{v87, v88, v86, v87}, []string{refused, refused, "", refused}, 2},
		{"broken", broken, []parameters.Version{v86, v87, v88, v86}, []string{malformed, refused, refused, malformed}, 2},
		{"broken, first at 88", broken, []parameters.Version{v88, v86, v87}, []string{refused, malformed, refused}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, begin := range []string{"first start", "restart"} {
				v, err := New(Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				for i, version := range test.versions {
					out, err := v.run(callAt(version, test.code, "main"), &world{})
					if err != nil {
						t.Fatal(err)
					}
					got, want := "", ""
					if out.Err != nil {
						got = string(out.Err.AppendJSON(nil))
					}
					if test.want[i] != "" {
						want = prepareError(test.want[i])
					}
					if got != want || want != "" && out.GasBurnt != 0 {
						t.Errorf("%s, %v: %s, burnt %d, want %s", begin, version, got, out.GasBurnt, want)
					}
					if !v.Ready(primitives.HashBytes(test.code), &parameters.MustGet(version).Wasm) {
						t.Errorf("%s, %v: not ready", begin, version)
					}
				}
				builds := test.builds
				if begin == "restart" {
					builds = 0
				}
				if s := v.Stats(); s.Builds != builds || s.Failures != 0 {
					t.Errorf("%s: %d builds, %d failures, want %d builds", begin, s.Builds, s.Failures, builds)
				}
				v.Close()
			}
		})
	}
}
