package contracts

import (
	"fmt"
	"math/rand/v2"

	"github.com/troupe-chain/troupe/primitives"
)

// Random generates random programs for the probe. Most calls succeed; some fail in one of the ways
// in which contracts fail.
type Random struct {
	Rand *rand.Rand
	// To draws an account that may have the probe deployed.
	To func() primitives.AccountID
	// Key draws a public key in borsh.
	Key func() []byte
	// Code draws wasm to deploy; nil: none.
	Code func() []byte
}

// Program returns a program of a few host calls. Its promises contain programs of depth-1; at depth
// 0 it makes none.
func (r *Random) Program(depth int) *Program {
	w := &writer{Random: r, depth: depth}
	for range 1 + r.Rand.IntN(6) {
		w.step()
	}
	if r.Rand.IntN(3) == 0 {
		w.answer()
	}
	switch r.Rand.IntN(24) {
	case 0:
		w.Call("panic_utf8", "at random")
	case 1:
		w.Trap()
	case 2:
		w.Call("promise_return", r.Rand.IntN(3)) // the argument may be the index of a promise that does not exist
	case 3, 4, 5, 6:
		if n := len(w.promises); n > 0 {
			w.Call("promise_return", w.promises[n-1])
		}
	case 7, 8, 9:
		w.Call("value_return", w.bytes(40))
	case 10, 11:
		w.GiveResults()
	}
	return &w.Program
}

// writer is the state of a program while it is generated: the promises that it has made so far.
type writer struct {
	*Random
	Program
	depth    int
	promises []Result
}

func (w *writer) bytes(most int) []byte {
	b := make([]byte, w.Rand.IntN(most))
	for i := range b {
		b[i] = 'a' + byte(w.Rand.IntN(26))
	}
	return b
}

// key returns one of a few keys, so that calls read what other calls wrote.
func (w *writer) key() []byte { return fmt.Appendf(nil, "k%d", w.Rand.IntN(12)) }

func (w *writer) account() string { return string(w.To()) }

// gas returns the gas of a promise: up to what a call with a few tens of Tgas can attach.
func (w *writer) gas() uint64 { return w.Rand.Uint64N(12_000_000_000_000) }

func (w *writer) amount() Pointer {
	if w.Rand.IntN(3) > 0 {
		return Amount(primitives.Balance{})
	}
	return Amount(primitives.Yocto(w.Rand.Uint64N(1_000_000)))
}

func (w *writer) step() {
	switch n := w.Rand.IntN(20); {
	case n < 6:
		w.storage()
	case n < 8:
		w.Call("log_utf8", w.bytes(60))
	case n < 9:
		w.memory()
	case n < 11:
		w.context()
	case w.depth > 0 && n < 18:
		w.promise()
	case w.depth > 0:
		w.yield()
	}
}

func (w *writer) storage() {
	switch w.Rand.IntN(8) {
	case 0, 1, 2:
		w.Call("storage_write", w.key(), w.bytes(300), 1)
	case 3, 4:
		w.Call("storage_read", w.key(), 2)
	case 5:
		w.Call("storage_remove", w.key(), 3)
	case 6:
		w.Call("storage_has_key", w.key())
	case 7:
		w.Fill(ProbeScratch, uint64(w.Rand.IntN(256)), 9000)
		w.Call("storage_write", w.key(), uint64(w.Rand.IntN(9000)), uint64(ProbeScratch), 1)
	}
}

func (w *writer) memory() {
	switch w.Rand.IntN(3) {
	case 0:
		w.Loop(w.Rand.Uint64N(30_000))
	case 1:
		w.Grow(w.Rand.Uint64N(3))
	case 2:
		w.Copy(ProbeScratch+8, ProbeScratch, w.Rand.Uint64N(5000))
	}
}

func (w *writer) context() {
	w.Call([...]string{"block_index", "block_timestamp", "epoch_height", "storage_usage", "prepaid_gas", "used_gas",
		"promise_results_count"}[w.Rand.IntN(7)])
	name := [...]string{"current_account_id", "signer_account_id", "signer_account_pk", "predecessor_account_id",
		"random_seed", "refund_to_account_id"}[w.Rand.IntN(6)]
	w.Call(name, 4)
	w.Call([...]string{"sha256", "keccak256", "ripemd160"}[w.Rand.IntN(3)], ^uint64(0), 4, 5)
}

// answer reads the first promise result if there is one. Without it, later results would have other
// numbers, so this call comes last.
func (w *writer) answer() {
	count := w.Call("promise_results_count")
	then := w.Branch()
	then.Call("promise_result", 0, 6)
	w.IfNotZero(count, then)
}

// payload returns the arguments of a function call in a promise, mostly another random program.
func (w *writer) payload() []byte {
	if w.Rand.IntN(8) == 0 {
		return w.bytes(30) // random bytes are no program: most calls end at once or trap
	}
	return w.Random.Program(w.depth - 1).Bytes()
}

func (w *writer) method() string {
	return [...]string{"run", "run", "run", "run", "then", "noop", "div0", "missing"}[w.Rand.IntN(8)]
}

func (w *writer) add(p Result) { w.promises = append(w.promises, p) }

func (w *writer) promise() {
	n := len(w.promises)
	switch k := w.Rand.IntN(10); {
	case n > 0 && k < 3:
		w.add(w.Call("promise_then", w.promises[w.Rand.IntN(n)], w.account(), w.method(), w.payload(), w.amount(), w.gas()))
	case n > 1 && k == 3:
		both := w.Call("promise_and", w.last(n), w.Rand.IntN(2)+1)
		w.add(w.Call("promise_then", both, w.account(), w.method(), w.payload(), w.amount(), w.gas()))
	case k < 7:
		w.add(w.Call("promise_create", w.account(), w.method(), w.payload(), w.amount(), w.gas()))
	default:
		p := w.Call("promise_batch_create", w.account())
		if n > 0 && w.Rand.IntN(2) == 0 {
			p = w.Call("promise_batch_then", w.promises[n-1], w.account())
		}
		for range 1 + w.Rand.IntN(3) {
			w.action(p)
		}
		if w.Rand.IntN(6) == 0 {
			w.Call("promise_set_refund_to", p, w.account())
		}
		w.add(p)
	}
}

// last returns the memory address of the result that is the index of the last promise. If the
// result before it is the index of the promise before, last returns the address of that one.
// promise_and then reads one or two indices from there.
func (w *writer) last(n int) uint64 {
	at := w.promises[n-1]
	if w.promises[n-2] == at-1 {
		at--
	}
	return probeResults + bytesPerResult*uint64(at)
}

func (w *writer) action(p Result) {
	const batch = "promise_batch_action_"
	switch w.Rand.IntN(12) {
	case 0, 1:
		w.Call(batch+"transfer", p, w.amount())
	case 2, 3, 4:
		w.Call(batch+"function_call", p, w.method(), w.payload(), w.amount(), w.gas())
	case 5, 6:
		w.Call(batch+"function_call_weight", p, w.method(), w.payload(), w.amount(), w.gas()/4, w.Rand.IntN(3))
	case 7:
		w.Call(batch+"add_key_with_full_access", p, w.Key(), 0)
	case 8:
		w.Call(batch+"add_key_with_function_call", p, w.Key(), 0, w.amount(), w.account(), "run,noop")
	case 9:
		w.Call(batch+"delete_key", p, w.Key())
	case 10:
		if w.Code != nil {
			w.Call(batch+"deploy_contract", p, w.Code())
		}
	case 11:
		w.Call(batch+"create_account", p)
	}
}

func (w *writer) yield() {
	id := []byte(fmt.Sprintf("%-32d", w.Rand.IntN(6)))
	switch w.Rand.IntN(5) {
	case 0:
		w.add(w.Call("promise_yield_create", "run", w.payload(), w.gas()/2, 0, 7))
	case 1: // resume the promise in the call that creates it
		w.add(w.Call("promise_yield_create", "run", w.payload(), w.gas()/2, 0, 7))
		w.Call("promise_yield_resume", ^uint64(0), 7, w.bytes(30))
	case 2:
		w.Call("promise_yield_create_with_id", "run", w.payload(), w.amount(), w.gas()/2, 0, id)
	default:
		w.Call("promise_yield_resume_with_yield_id", id, w.bytes(30))
	}
}
