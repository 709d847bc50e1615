package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// hostCalls is a call of the host by a program: the function and the argument.
type hostCalls [][2]uint64

// mostTold is the number of host calls after which the host stops a program.
const mostTold = 2000

func (s *hostCalls) HostCall(fn int, args []uint64, _ []byte, gas int64) (uint64, int64, bool) {
	*s = append(*s, [2]uint64{uint64(fn), args[0]})
	return args[0]*31 + 7, gas, len(*s) < mostTold
}

// canonical is an engine for unprepared programs: Cranelift with its own canonicalisation of NaNs.
type canonical struct {
	store  *wasmtime.Store
	linker *wasmtime.Linker
	told   *hostCalls
}

func newCanonical(t *testing.T) *canonical {
	c := wasmtime.NewConfig()
	c.SetCraneliftNanCanonicalization(true)
	c.SetConsumeFuel(true)
	e := wasmtime.NewEngineWithConfig(c)
	x := &canonical{store: wasmtime.NewStore(e), linker: wasmtime.NewLinker(e), told: new(hostCalls)}
	call := func(fn int, v uint64) (uint64, *wasmtime.Trap) {
		result, _, ok := x.told.HostCall(fn, []uint64{v}, nil, 0)
		if !ok {
			return 0, wasmtime.NewTrap("told enough")
		}
		return result, nil
	}
	for fn, name := range []string{"i32", "i64", "f32", "f64", "get"} {
		var f any = func(v int64) *wasmtime.Trap { _, trap := call(fn, uint64(v)); return trap }
		switch fn {
		case 0, 2:
			f = func(v int32) *wasmtime.Trap { _, trap := call(fn, uint64(uint32(v))); return trap }
		case 4:
			f = func(v int64, _ int32) (int64, *wasmtime.Trap) { r, trap := call(fn, uint64(v)); return int64(r), trap }
		}
		if err := x.linker.FuncWrap("env", name, f); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// run runs a program. It returns false if the program reached a limit of the engine.
func (x *canonical) run(t *testing.T, code []byte) (hostCalls, bool) {
	*x.told = nil
	m, err := wasmtime.NewModule(x.store.Engine, code)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := x.store.SetFuel(3_000_000); err != nil {
		t.Fatal(err)
	}
	in, err := x.linker.Instantiate(x.store, m)
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.GetFunc(x.store, "main").Call(x.store)
	left, _ := x.store.GetFuel()
	ended := left > 0
	if trap, is := err.(*wasmtime.Trap); is && trap.Code() != nil && *trap.Code() == wasmtime.StackOverflow {
		ended = false
	}
	return slices.Clone(*x.told), ended
}

// TestOmittedNaNCanonicalisationIsInvisible runs programs with NaNs over operands, locals, globals,
// memory, blocks, selects, calls and signs. Their output must be the same as with an engine that
// makes each NaN canonical when it is computed. So prep omits canonicalisation only where the
// difference cannot be observed. TROUPE_DIFFER=10m runs for that long, with another seed each time.
func TestOmittedNaNCanonicalisationIsInvisible(t *testing.T) {
	d, rules := newGeneratorComparer(t), &parameters.MustGet(parameters.June(86)).Wasm
	x := newCanonical(t)
	ends, noNumbers, odd, n := 0, 0, 0, 0
	run := func(seed uint64) {
		if n++; n%100 == 0 {
			x = newCanonical(t) // a store keeps all instances
		}
		code := newFloats(seed)
		p, err := prep.Prepare(code, rules)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want, ended := x.run(t, code)
		if !ended {
			return
		}
		for _, e := range []*engine.Engine{d.winch, d.other} {
			var got hostCalls
			m := d.load(e, p.Code, seed)
			out, err := m.Run(engine.Call{Method: prep.MethodPrefix + "main", Gas: 1 << 60, Host: &got})
			if err != nil {
				t.Fatalf("seed %d: %+v, %v", seed, out, err)
			}
			m.Close()
			if out.Stack < 0 && len(got) < len(want) { // which the other has more of
				want = want[:len(got)]
			}
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("seed %d, number %d of %d: %d %x, want %d %x", seed, i, len(want), got[i][0], got[i][1], want[i][0], want[i][1])
					}
				}
				t.Fatalf("seed %d: reported %d values, want %d", seed, len(got), len(want))
			}
		}
		ends++
		for _, v := range want {
			if f := math.Float32frombits(uint32(v[1])); v[0] == 2 && f != f {
				if noNumbers++; v[1] != 0x7fc0_0000 {
					odd++
				}
			}
			if f := math.Float64frombits(v[1]); v[0] == 3 && f != f {
				if noNumbers++; v[1] != 0x7ff8_0000_0000_0000 {
					odd++
				}
			}
		}
	}
	if long, err := time.ParseDuration(os.Getenv("TROUPE_DIFFER")); err == nil {
		seed := rand.Uint64()
		t.Logf("from seed %d", seed)
		for end := time.Now().Add(long); time.Now().Before(end); {
			run(seed + uint64(n))
		}
	} else {
		for seed := range uint64(100) {
			run(seed)
		}
	}
	what := fmt.Sprintf("%d of %d programs ended, %d floats that are no numbers were told, %d of them not canonical", ends, n, noNumbers, odd)
	if t.Log(what); ends < 80 || noNumbers-odd < 2000 || odd < 2000 {
		t.Error("these are few")
	}
}
