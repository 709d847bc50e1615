package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// ErrCompiler is what a CompilerError is.
var ErrCompiler = errors.New("vm: the compiler failed")

// CompilerError is a call of code that this node can't make ready to run: its compiler crashed,
// came to its limits or refused what package prep says is valid. That is not the contract's
// failure, and other nodes run it, so it is no outcome: a chunk with such a call can't be applied
// here.
type CompilerError struct {
	CodeHash primitives.Hash
	Reason   string
	cause    error
}

func (e *CompilerError) Error() string {
	return fmt.Sprintf("vm: code %v can't be compiled by this node: %s", e.CodeHash, e.Reason)
}

// Is tells that it is ErrCompiler.
func (e *CompilerError) Is(target error) bool { return target == ErrCompiler }

// Unwrap gives the compiler's own.
func (e *CompilerError) Unwrap() error { return e.cause }

// task is code to be made ready.
type task struct {
	hash       primitives.Hash
	code       []byte
	rules      *parameters.Wasm
	traced     bool
	background bool
	placed     bool // it has its place in the compiler
	cancel     <-chan struct{}
	file       bool // it goes into v.cache, so it may come in a file of that
}

func (v *VM) prepare(t *task) (*prep.Module, error) {
	if t.traced {
		return prep.PrepareTraced(t.code, t.rules)
	}
	return prep.Prepare(t.code, t.rules)
}

// name is the task's in the compiler's quarantine.
func (v *VM) name(t *task) string {
	rules := v.rules(t.rules)
	name := fmt.Sprintf("%x-%x", t.hash[:], rules[:8])
	if t.traced {
		name += "-traced"
	}
	return name
}

// build prepares and compiles code. Code that breaks a rule makes an artifact too: what package
// prep says of it. What the compiler says is never kept.
func (v *VM) build(t *task) (cache.Artifact, error) {
	var a cache.Artifact
	temp := ""
	defer func() {
		if temp != "" && a.File == "" {
			_ = os.Remove(temp)
		}
	}()
	begun := false
	defer func() {
		if begun {
			thrift.end()
		}
	}()
	code, err := v.compiler.Compile(&compiler.Job{
		Name: v.name(t), Code: t.hash, Size: len(t.code), Background: t.background, Placed: t.placed, Cancel: t.cancel,
		Prepare: func() (wasm []byte, err error) {
			begun = true
			thrift.begin()
			a, wasm, err = prepared(v.prepare(t))
			// what it was made of is as much again and more, and the compiler's memory comes on top
			if len(wasm) >= largeArtifact {
				go v.collector.run() // beside: a block may wait for the compiler
			}
			return wasm, err
		},
		File: func() string {
			if t.file {
				temp = v.cache.TempFile()
			}
			return temp
		},
		Wrote: func(path string, w compiler.Written) { a.File, a.Size, a.Sum = path, w.Size, w.Sum },
	})
	var failed *compiler.Error
	switch {
	case errors.As(err, &failed):
		if failed.Attempts > 0 {
			v.fault("vm: code %v does not compile: %w", t.hash, err)
		}
		return cache.Artifact{}, &CompilerError{t.hash, failed.Reason, err}
	case err != nil:
		return cache.Artifact{}, err
	}
	if len(code) >= largeArtifact || a.Size >= largeArtifact {
		v.large.Store(true)
	}
	if engine.Whole(code) || a.File != "" && wholeFile(a.File) {
		v.whole.Add(1)
	}
	a.Code, a.Source = code, len(t.code)
	return a, nil
}

func wholeFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	return engine.WholeIn(f)
}

// prepared is what is known of a module before it is compiled, and wasm, nil if there is nothing to
// compile.
func prepared(p *prep.Module, err error) (a cache.Artifact, wasm []byte, _ error) {
	var why primitives.PrepareError
	switch {
	case errors.As(err, &why):
		return negative(&primitives.CompilationError{Tag: primitives.CompilationPrepare, Prepare: why}), nil, nil
	case err != nil:
		return cache.Artifact{}, nil, err
	case p.CompileFails:
		return negative(&primitives.CompilationError{Tag: primitives.CompilationWasm, Message: localsText}), nil, nil
	}
	i := read(p)
	a.Info = i.appendBorsh(nil)
	if p.LoadFails || i.strange != "" { // never to be run
		return a, nil, nil
	}
	return a, p.Code, nil
}

// largeArtifact is how many bytes of one, or of a prepared module, are worth a collection of
// garbage: the collector has more room than that before it begins by itself, and the next
// compilation's memory would come on top.
const largeArtifact = 4 << 20

// localsText is what neard's compiler says of the two locals that instrumentation adds to the most
// there may be, about.
const localsText = "failed to compile: Invalid input WebAssembly code: too many locals: locals exceed maximum"

func negative(e *primitives.CompilationError) cache.Artifact {
	return cache.Artifact{Info: (&info{compilation: e}).appendBorsh(nil)}
}

// newCompiler makes the pool of a VM.
func newCompiler(o *Options, e *engine.Engine, alarm func(error)) *compiler.Pool {
	c := compiler.Options{
		Command: o.Compiler, Version: version(), Total: o.Builders, Idle: o.CompilerIdle, Hang: o.CompilerHang, Build: o.Build, Alarm: alarm,
		Compile: func(wasm []byte) ([]byte, error) {
			code, err := e.Compile(wasm)
			if errors.Is(err, engine.ErrClosed) {
				err = compiler.ErrClosed
			}
			return code, err
		},
	}
	if o.Dir != "" {
		c.Dir = filepath.Join(o.Dir, version(), "marks") // so those of another version go with its artifacts
	}
	return compiler.New(c)
}

// ServeCompiler makes this process a child that compiles for its parent, which is a VM with
// Options.Compiler, until that ends or is done with it. It returns the exit code. before, if not
// nil, is called before each compilation, for tests of what it may do.
func ServeCompiler(before func(code primitives.Hash)) int {
	e, err := newEngine(false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return compiler.Main(version(), func(r *compiler.Request) ([]byte, error) {
		if before != nil {
			before(r.Code)
		}
		return e.Compile(r.Wasm)
	})
}
