package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/storage"
)

// failingVM is a VM whose calls return the error of how, or panic with it.
type failingVM struct{ how atomic.Pointer[func() error] }

func (v *failingVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	return c.Unchanged(), (*v.how.Load())()
}

func (v *failingVM) set(how func() error) *failingVM {
	v.how.Store(&how)
	return v
}

var errCompiler = errors.New("the compiler died")

func call() primitives.Action {
	return &primitives.FunctionCall{Method: "m", Gas: 10_000_000_000_000}
}

func second(_ int, text string) string { return text }

// stopNow stops a node before its disk is opened again.
func (s *sandbox) stopNow(t *testing.T) {
	t.Helper()
	s.ended.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if err := s.e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := s.store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestInapplicableChunkHaltsTheNode: a chunk cannot be applied, because a call panics or returns an
// error. The node halts: it reports the reason, rejects requests, answers waits, and serves reads.
// The written file reproduces the failure. After a restart the block is tried once and halts the
// node again, until the cause is removed.
func TestInapplicableChunkHaltsTheNode(t *testing.T) {
	for name, how := range map[string]func() error{
		"panic": func() error { panic("an impossible trap") },
		"error": func() error { return errCompiler },
	} {
		t.Run(name, func(t *testing.T) {
			disk, dir, vm := storage.NewMemDisk(), filepath.Join(t.TempDir(),
				"failed"), new(failingVM).set(func() error { return nil })
			var said bytes.Buffer
			log := logrus.New()
			log.SetOutput(&said)
			change := func(o *Options) { o.Failed, o.FailedBuild, o.Log = dir, "test", log }
			s := startOn(t, 2, disk, vm, change)
			send := func(until view.ExecutionLevel, a ...primitives.Action) error {
				_, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx(validator, a...), WaitUntil: until})
				return err
			}
			w := serve(t, s)
			if code, _ := w.get(t, "/health"); code != 200 {
				t.Errorf("/health before: %d", code)
			}
			if _, text := w.get(t, "/status"); strings.Contains(text, "halted") {
				t.Errorf("/status before: %s", text)
			}
			if err := send(view.LevelFinal, &primitives.DeployContract{Code: []byte("no code")}); err != nil {
				t.Fatal(err)
			}
			if err := send(view.LevelFinal, call()); err != nil {
				t.Fatal(err)
			}
			vm.set(how)
			var halted *HaltedError
			if err := send(view.LevelExecutedOptimistic, call()); !errors.As(err, &halted) {
				t.Fatalf("a call that fails: %v, want a *HaltedError", err)
			}
			head := s.e.Head()
			until(t, func() bool { h, _ := s.Halted(); return h.File != "" })
			h, ok := s.Halted()
			if !ok || h.Height != head.Height()+1 || !strings.Contains(h.Reason, "impossible trap") &&
				!strings.Contains(h.Reason, errCompiler.Error()) {
				t.Errorf("halted: %+v, %v; the head is %d", h, ok, head.Height())
			}
			for _, level := range []view.ExecutionLevel{view.LevelNone, view.LevelFinal} {
				if err := send(level, transfer(1)); !errors.As(err, &halted) {
					t.Errorf("a transaction for %v after it: %v", level, err)
				}
			}
			if _, _, err := s.Mine(t.Context(), 1); !errors.As(err, &halted) {
				t.Errorf("mine: %v", err)
			}
			s.Receive(messages.BlockReceived{Block: head.Block})
			state, err := s.e.StateAt(head.Hash)
			if err != nil {
				t.Fatalf("reads: %v", err)
			}
			state.Release()
			if !w.reads(t) {
				t.Error("reads by RPC fail")
			}
			if r := w.send(t, s.tx("near", transfer(1)), view.LevelFinal); r.fault() != "INTERNAL_ERROR" ||
				!strings.Contains(string(r.Error.Cause.Info), "halted") {
				t.Errorf("a transaction by RPC: %+v", r.Error)
			}
			late := s.tx("near", transfer(1))
			if r := w.send(t, late, view.LevelNone); r.fault() != "INTERNAL_ERROR" {
				t.Errorf("a submission without a wait: got %+v", r)
			}
			if r := w.call(t, "broadcast_tx_async",
				[]string{base64.StdEncoding.EncodeToString(borsh.Marshal(late))}); r.fault() != "INTERNAL_ERROR" {
				t.Errorf("broadcast_tx_async: %+v", r)
			}
			if code, _ := w.get(t, "/health"); code == 200 {
				t.Errorf("/health: %d", code)
			}
			if r := w.call(t, "health", []int{}); r.fault() != "NO_NEW_BLOCKS" {
				t.Errorf("health: %+v", r)
			}
			for what, text := range map[string]string{"status": string(w.call(t, "status", []int{}).Result),
				"/status": second(w.get(t, "/status"))} {
				var status struct {
					Halted *struct {
						Height       primitives.Height
						Reason, File string
					}
				}
				if err := json.Unmarshal([]byte(text), &status); err != nil || status.Halted == nil ||
					status.Halted.Height != h.Height ||
					status.Halted.File != h.File || !strings.Contains(status.Halted.Reason, h.Reason) {
					t.Errorf("%s: %s, %v", what, text, err)
				}
			}
			if text := second(w.get(t, "/metrics")); !strings.Contains(text, "troupe_halted 1\n") {
				t.Error("/metrics does not say that it halted")
			}
			s.stopNow(t)
			if text := said.String(); strings.Count(text, "the node has halted") != 1 ||
				!strings.Contains(text, "troupe verify "+h.File) {
				t.Errorf("the log lacks the reason or the file:\n%s", text)
			}
			f, err := badchunk.Read(h.File)
			if err != nil || !badchunk.Is(h.File) {
				t.Fatalf("the file: %v", err)
			}
			if f.Again != f.Reason || !f.State.Whole {
				t.Errorf("a second run: %q, whole %v; the first: %q", f.Again, f.State.Whole, f.Reason)
			}
			if _, err := f.Run(vm); err == nil || err.Error() != f.Reason {
				t.Errorf("the file run again: %v, want %s", err, f.Reason)
			}
			if name == "panic" && !strings.Contains(f.Stack, "halt_test.go") {
				t.Errorf("the stack does not show where it failed:\n%s", f.Stack)
			}

			// The block is not on the chain, so its receipt is not either. The node works until
			// such a receipt comes again.
			s = startOn(t, 2, disk, vm, change)
			if s.e.Head().Hash != head.Hash {
				t.Errorf("the head after a restart is %d, was %d", s.e.Head().Height(), head.Height())
			}
			s.nonce = headNonce(t, s)
			if err := send(view.LevelFinal, transfer(1)); err != nil {
				t.Fatal(err)
			}
			if err := send(view.LevelFinal, call()); !errors.As(err, &halted) {
				t.Errorf("the same call: %v", err)
			}
			s.stopNow(t)
			vm.set(func() error { return nil })
			if _, err := f.Run(vm); err != nil {
				t.Errorf("the file, mended: %v", err)
			}
			s = startOn(t, 2, disk, vm, change)
			s.nonce = headNonce(t, s)
			if err := send(view.LevelFinal, call()); err != nil {
				t.Errorf("mended: %v", err)
			}
		})
	}
}

// TestStoredReceiptHaltsNodeAtEachStart: if a stored receipt cannot be executed, the node halts at
// each start after one try, and serves reads.
func TestStoredReceiptHaltsNodeAtEachStart(t *testing.T) {
	disk, dir, vm := storage.NewMemDisk(), filepath.Join(t.TempDir(),
		"failed"), new(failingVM).set(func() error { return nil })
	change := func(o *Options) { o.Failed = dir }
	s := startOn(t, 1, disk, vm, change)
	to := primitives.AccountID("other." + validator)
	send := func(tx *primitives.SignedTransaction, until view.ExecutionLevel) error {
		_, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: until})
		return err
	}
	account := []primitives.Action{&primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(10)},
		&primitives.DeployContract{Code: []byte("no code")}}
	if err := send(s.tx(to, account...), view.LevelFinal); err != nil {
		t.Fatal(err)
	}
	tried := new(atomic.Int64)
	vm.set(func() error { tried.Add(1); panic("broken") })
	tx := s.tx(to, call()) // its receipt is for another account, so it is executed in the next block
	var halted *HaltedError
	if err := send(tx, view.LevelFinal); !errors.As(err, &halted) {
		t.Fatal(err)
	}
	for range 3 {
		s.stopNow(t)
		tried.Store(0)
		s = startOn(t, 1, disk, vm, change)
		until(t, func() bool { h, ok := s.Halted(); return ok && h.File != "" })
		if n := tried.Load(); n != 2 { // once for the block, once for the file
			t.Errorf("run %d times", n)
		}
		if out, err := s.e.Transactions().FullStatus(tx.Hash()); err != nil || out.Level < view.LevelIncluded {
			t.Errorf("the transaction is %v, %v", out.Level, err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) == 0 || len(names) > badchunk.MaxFiles {
		t.Errorf("%d files, %v", len(names), err)
	}
	s.stopNow(t)
	vm.set(func() error { return nil })
	s = startOn(t, 1, disk, vm, change)
	if out, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelFinal}); err != nil ||
		out.Level != view.LevelFinal {
		t.Errorf("mended: %v", err)
	}
}

// TestOwnFaultHaltsAndDiskFaultEndsNode: a fault of this node that is not in a chunk halts it. A
// fault of the disk ends the process.
func TestOwnFaultHaltsAndDiskFaultEndsNode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		ends bool
	}{{errors.New("the state contradicts itself"), false}, {fmt.Errorf("read: %w", syscall.EIO), true},
		{storage.ErrFull, false}} {
		var ended []any
		s := start(t, 1, func(o *Options) {
			o.Mode, o.Exit = production.Manual, func(_ string, reason any, _ []byte) { ended = append(ended, reason) }
		})
		s.chainHalted(messages.ChainHalted{Err: tt.err, Drop: func() {}})
		h, halted := s.Halted()
		if halted == tt.ends || len(ended) > 0 != tt.ends || halted && h.Reason != tt.err.Error() {
			t.Errorf("%v: halted %v (%s), ended %v", tt.err, halted, h.Reason, ended)
		}
	}
}

// loggingVM is a VM that logs an additional line in each call, unlike other nodes.
type loggingVM struct{}

func (loggingVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	out := c.Unchanged()
	out.Logs = append(out.Logs, "a line")
	return out, nil
}

// refusals implements messages.NetworkSender: it counts refused blocks.
type refusals struct{ n *int }

func (r refusals) Refused(messages.BlockRefused)      { *r.n++ }
func (r refusals) ChunkRefused(messages.ChunkRefused) {}
func (r refusals) Wanted(messages.BlockWanted)        {}
func (r refusals) ChunksWanted(messages.ChunksWanted) {}

// TestOutcomeMismatchHaltsTheNode: a chunk that its validators have endorsed has another outcome
// than this node computes. The node halts, writes the input to a file, and serves reads. It does
// not blame the peer that sent the block.
func TestOutcomeMismatchHaltsTheNode(t *testing.T) {
	r := newBlockRecorder()
	a := startOn(t, 2, storage.NewMemDisk(), new(failingVM).set(func() error { return nil }), func(o *Options) {
		o.Mode, o.Observe = production.Manual, r.observe
	})
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	dir, refused := filepath.Join(t.TempDir(), "failed"), 0
	b := startOn(t, 2, storage.NewMemDisk(), loggingVM{}, func(o *Options) {
		o.Mode, o.Keys, o.Failed, o.FailedBuild, o.Log = production.Manual, nil, dir, "test", log
		o.Net = refusals{n: &refused}
	})
	for _, action := range []primitives.Action{&primitives.DeployContract{Code: []byte("no code")}, call()} {
		if _, err := a.Submit(a.tx(validator, action)); err != nil {
			t.Fatal(err)
		}
		mineBlocks(t, a, 3)
	}
	blocks := r.all()
	for _, m := range blocks {
		b.Receive(m)
	}
	until(t, func() bool { h, _ := b.Halted(); return h.File != "" })
	h, _ := b.Halted()
	// The parent of the failed block may not be on disk yet.
	until(t, func() bool { return b.e.Head().Height() >= h.Height })
	head := b.e.Head()
	if h.Height != head.Height() || h.Block != head.Hash || head.Height() >= a.e.Head().Height() ||
		!strings.Contains(h.Reason, "more than two thirds") {
		t.Errorf("halted %+v; the head is %d, of the other %d", h, head.Height(), a.e.Head().Height())
	}
	b.stopNow(t)
	if refused != 0 || !strings.Contains(said.String(), "claims another result than this node computed") {
		t.Errorf("%d blocks refused, want none; the log: %s", refused, said.String())
	}
	file, err := badchunk.Read(h.File)
	if err != nil {
		t.Fatal(err)
	}
	got := map[primitives.Hash]bool{}
	for _, vm := range []action.VM{loggingVM{}, new(failingVM).set(func() error { return nil })} {
		x, err := file.Run(vm)
		if err != nil {
			t.Fatal(err)
		}
		got[primitives.HashBytes(fmt.Append(nil, x.Outcomes))] = true
	}
	if len(got) != 2 {
		t.Error("the file gives the same outcomes with either VM: it has another chunk")
	}
}
