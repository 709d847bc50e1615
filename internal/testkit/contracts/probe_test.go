package contracts

import (
	"encoding/hex"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestProbeIsTheRecordedOne: the probe has the hash of the code that the recordings deploy (probe,
// storm and reshard; 6,736 bytes).
func TestProbeIsTheRecordedOne(t *testing.T) {
	const want = "5ujSUjBawqzRNPpxCmGCgyhrNLkHqEmFSHhoo4noSad5"
	if got := primitives.HashBytes(Probe()).String(); got != want || len(Probe()) != 6736 {
		t.Errorf("the probe is %s, %d bytes, want %s, 6736", got, len(Probe()), want)
	}
}

// TestProgramHasRecordedBytes: a program has the bytes that the builder of the recordings makes of
// it.
func TestProgramHasRecordedBytes(t *testing.T) {
	var p Program
	wrote := p.Call("storage_write", "k", []byte("v1"), 0)
	p.Loop(5)
	sent := p.Call("promise_create", "bob.w", "run", "", Amount(primitives.Yocto(7)), 1_000_000_000_000)
	then := p.Branch()
	then.Call("promise_return", sent)
	p.IfNotZero(wrote, then)
	p.Grow(1)
	p.Fill(ProbeScratch, 1, 2)
	p.Copy(ProbeScratch, ProbeBase, 3)
	p.GiveResults()
	p.Trap()
	const want = "4200010000000000000000ec0001000000000000020000000000000000ed00010000000000000000000000000000fe0005000000000000001f00050000000000000000ef0001000000000000030000000000000000f40001000000000000000000000000000000f70001000000000000f700010000000000000010a5d4e8000000fa010000000000000000000a0000000000000041010100000000000000fd000100000000000000f9000000280000000000000100000000000000000200000000000000f8000000280000000000000000010000000000000300000000000000fb000300000000000000fcff6b7631626f622e7772756e07000000000000000000000000000000"
	if got := hex.EncodeToString(p.Bytes()); got != want {
		t.Errorf("program is\n%s, want\n%s", got, want)
	}
}
