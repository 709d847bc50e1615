package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/badchunk"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// errFails means that a chunk that a node could not apply still fails.
var errFails = errors.New("the chunk still fails")

// verifyFailed applies a chunk that a node could not apply, and prints the result. As in a node,
// contracts are compiled in child processes, because the compiler may be the part that fails.
func verifyFailed(w io.Writer, file string) error {
	f, err := badchunk.Read(file)
	if err != nil {
		return err
	}
	machine, err := vm.New(vm.Options{Compiler: compilerCommand()})
	if err != nil {
		return err
	}
	defer machine.Close()
	_, _ = fmt.Fprintf(w, "%s: shard %d of block %d of %s, %d transactions, %d receipts; build %s failed at %s: %s\n", filepath.Base(file),
		f.Shard, f.Height, f.Chain, len(f.Txs), len(f.Incoming), f.Build, f.Time.Format("2006-01-02 15:04:05"), f.Reason)
	r, err := f.Run(machine)
	var p *engine.Panic
	switch {
	case err == nil:
		_, _ = fmt.Fprintf(w, "  now it succeeds: %d outcomes, %d gas, state root %v\n", len(r.Outcomes), r.GasUsed, r.Trie.Root())
		return nil
	case errors.Is(err, badchunk.ErrState):
		_, _ = fmt.Fprintln(w, "  now it passes the point of failure and reaches a part of the state that the file does not contain")
		return nil
	case errors.Is(err, badchunk.ErrFormat):
		return err
	case errors.As(err, &p):
		_, _ = fmt.Fprintf(w, "  now: %v\n%s\n", p, p.Stack)
	default:
		_, _ = fmt.Fprintf(w, "  now: %v\n", err)
	}
	return errFails
}
