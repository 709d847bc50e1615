package vm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/runtime/vm/engine"
)

// TestTrivialCallHasNearcoresCosts checks nearcore's
// integration-tests/src/tests/runtime/sanity_checks.rs:173, whose snapshot
// ..receipts_gas_profile_nondeterministic.snap has all costs of a call of a trivial contract, with
// the fees of 86. TestSanityCheckCostsMatchNearcore of package logic covers other contracts.
func TestTrivialCallHasNearcoresCosts(t *testing.T) { inForms(t, testTrivialCallCosts) }

func testTrivialCallCosts(t *testing.T, v *VM) {
	code := wat(t, `(module (func (export "main") (i32.const 92) (drop)))`)
	out, err := v.run(call(code, "main", 300*tera), &world{})
	if err != nil || out.Err != nil || len(code) != 38 || len(out.Return.Value) != 0 {
		t.Fatalf("%d bytes, %s, %v", len(code), ended(&out), err)
	}
	got := ""
	for _, e := range out.Profile {
		got += fmt.Sprintln(e.Category, e.Cost, uint64(e.Gas))
	}
	const want = "WASM_HOST_COST CONTRACT_LOADING_BASE 35445963\n" +
		"WASM_HOST_COST CONTRACT_LOADING_BYTES 41393210\n" +
		"WASM_HOST_COST WASM_INSTRUCTION 8227560\n"
	if got != want {
		t.Errorf("profile:\n%swant:\n%s", got, want)
	}
}

// TestUsedGasIsExactInMeteredBlock is sanity_checks.rs:238: the result of used_gas within a metered
// block, and after it.
func TestUsedGasIsExactInMeteredBlock(t *testing.T) { inForms(t, testUsedGasInBlock) }

func testUsedGasInBlock(t *testing.T, v *VM) {
	code := wat(t, `(module
		(type $t0 (func (result i64))) (type $t1 (func (param i64 i64))) (type $t2 (func))
		(import "env" "used_gas" (func $env.used_gas (type $t0)))
		(import "env" "value_return" (func $env.value_return (type $t1)))
		(memory 1)
		(func $main (export "main") (type $t2) (local $used_0 i64) (local $used_1 i64) (local $used_2 i64) (local $used_3 i64)
			(call $env.used_gas) (call $env.used_gas) (local.set $used_1) (local.set $used_0)
			(i64.add (local.get $used_0) (i64.const 1)) drop nop
			(call $env.used_gas) (local.set $used_2)
			(block $b0
				(br_if $b0 (i64.eq (local.get $used_0) (i64.const 0)))
				call $env.used_gas local.set $used_3 nop)
			(i64.store (i32.const 0) (local.get $used_0)) (i64.store (i32.const 8) (local.get $used_1))
			(i64.store (i32.const 16) (local.get $used_2)) (i64.store (i32.const 24) (local.get $used_3))
			(call $env.value_return (i64.const 32) (i64.extend_i32_u (i32.const 0)))))`)
	out, err := v.run(call(code, "main", 300*tera), &world{})
	if err != nil || out.Err != nil || len(out.Return.Value) != 32 {
		t.Fatalf("%s, %v", ended(&out), err)
	}
	const base = 264_768_111
	var used [4]uint64
	for i := range used {
		used[i] = binary.LittleEndian.Uint64(out.Return.Value[8*i:])
	}
	if d := used[1] - used[0]; d != base+opGas {
		t.Errorf("from call to call %d, want %d", d, base+opGas)
	}
	if d := used[2] - used[1]; d != base+8*opGas {
		t.Errorf("over eight instructions %d, want %d", d, base+8*opGas)
	}
	if d := used[3] - used[2]; d != base+6*opGas { // nearcore asks for more than base
		t.Errorf("into the block %d, want %d", d, base+6*opGas)
	}
}

// TestConcurrentCallsBurnSameGas is near-vm-runner/src/tests/regression_tests.rs:81: concurrent
// calls burn what each of them burns alone. nearcore's test has 128 threads with 16 calls each.
func TestConcurrentCallsBurnSameGas(t *testing.T) {
	v := newVM(t)
	code := wat(t, loops)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 2 {
				out, err := v.run(call(code, "foo", 100*tera), &world{})
				if got, want := ended(&out), fmt.Sprintf("burnt %d used %d %s", 100*tera, 100*tera, outOfGas); err != nil || got != want {
					t.Errorf("%s, %v, want %s", got, err, want)
				}
			}
		})
	}
	all.Wait()
}

// TestChainIDIsReturnedToContract is near-vm-runner/src/tests/chain_id_integration.rs:21.
func TestChainIDIsReturnedToContract(t *testing.T) {
	v := newVM(t)
	code := wat(t, `(module
		(import "env" "chain_id" (func $chain_id (param i64)))
		(import "env" "register_len" (func $register_len (param i64) (result i64)))
		(import "env" "read_register" (func $read_register (param i64 i64)))
		(import "env" "value_return" (func $value_return (param i64 i64)))
		(memory 1)
		(func (export "main")
			(call $chain_id (i64.const 0))
			(call $read_register (i64.const 0) (i64.const 0))
			(call $value_return (call $register_len (i64.const 0)) (i64.const 0))))`)
	c := call(code, "main", 300*tera)
	c.Block.ChainID = "test"
	out, err := v.run(c, &world{})
	if err != nil || out.Err != nil || string(out.Return.Value) != "test" {
		t.Errorf("%s, returned %q, %v", ended(&out), out.Return.Value, err)
	}
}

// TestP256VerifyMatchesNearcore is near-vm-runner/src/tests/p256_verify_integration.rs:178-230.
func TestP256VerifyMatchesNearcore(t *testing.T) {
	v := newVM(t)
	secret, err := hex.DecodeString("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
	if err != nil {
		t.Fatal(err)
	}
	msg := []byte(strings.Repeat("\x07", 32))
	der, err := key.Sign(nil, msg, crypto.SHA256) // deterministic without a source of randomness
	if err != nil {
		t.Fatal(err)
	}
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &rs); err != nil {
		t.Fatal(err)
	}
	sig := make([]byte, 64)
	rs.R.FillBytes(sig[:32])
	rs.S.FillBytes(sig[32:])
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	public := append([]byte{2 + point[64]&1}, point[1:33]...)
	data := func(b []byte) (s string) {
		for _, x := range b {
			s += fmt.Sprintf("\\%02x", x)
		}
		return s
	}
	for _, c := range []struct {
		name        string
		sig         []byte
		flip        byte // of the message's first
		sigLen, key int  // said
		want        uint64
		err         string
	}{
		{"178 valid", sig, 0, 64, 33, 1, ""},
		{"186 tampered message", sig, 1, 64, 33, 0, ""},
		{"198 unparseable signature", make([]byte, 64), 0, 64, 33, 0, ""},
		{"209 63 bytes of signature", sig, 0, 63, 33, 0, "invalid signature length"},
		{"219 32 bytes of key", sig, 0, 64, 32, 0, "invalid public key length"},
		{"230 no signature", sig, 0, 0, 33, 0, "invalid signature length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code := wat(t, fmt.Sprintf(`(module
			(import "env" "p256_verify" (func $p256_verify (param i64 i64 i64 i64 i64 i64) (result i64)))
			(import "env" "value_return" (func $value_return (param i64 i64)))
			(memory (export "memory") 1)
			(data (i32.const 0) "%s") (data (i32.const 128) "%s") (data (i32.const 192) "%s")
			(func (export "main")
				(i64.store (i32.const 256) (call $p256_verify (i64.const %d) (i64.const 0) (i64.const 32) (i64.const 128) (i64.const %d) (i64.const 192)))
				(call $value_return (i64.const 8) (i64.const 256))))`,
				data(c.sig), data(append([]byte{msg[0] ^ c.flip}, msg[1:]...)), data(public), c.sigLen, c.key))
			out, err := v.run(call(code, "main", 100*tera), &world{})
			switch {
			case err != nil:
				t.Errorf("run: %v", err)
			case c.err != "":
				if out.Err == nil || !strings.Contains(out.Err.Message, c.err) {
					t.Errorf("%s, want %s", ended(&out), c.err)
				}
			case out.Err != nil || len(out.Return.Value) != 8 || binary.LittleEndian.Uint64(out.Return.Value) != c.want:
				t.Errorf("%s, %x", ended(&out), out.Return.Value)
			}
		})
	}
}

// TestOtherCodeGeneratorIsReported checks that a node reports a code generator other than its
// platform's.
func TestOtherCodeGeneratorIsReported(t *testing.T) {
	if err := otherGenerator(engine.Generator(), engine.Wanted()); err != nil {
		t.Error(err)
	}
	if err := otherGenerator(engine.Cranelift, engine.Winch); err == nil || !strings.Contains(err.Error(), engine.Cranelift) {
		t.Errorf("got error %v, want one that names Cranelift", err)
	}
}
