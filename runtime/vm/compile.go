package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// ErrCompiler matches every CompilerError in errors.Is.
var ErrCompiler = errors.New("vm: the compiler failed")

// CompilerError is the error of a call whose code this node cannot compile: the compiler crashed,
// reached its limits, or rejected a module that package prep accepts. Other nodes may run the
// contract, so the failure is not an outcome: this node cannot apply a chunk with such a call.
type CompilerError struct {
	CodeHash primitives.Hash
	Reason   string
	cause    error
}

func (e *CompilerError) Error() string {
	return fmt.Sprintf("vm: code %v can't be compiled by this node: %s", e.CodeHash, e.Reason)
}

// Is returns whether target is ErrCompiler.
func (e *CompilerError) Is(target error) bool { return target == ErrCompiler }

// Unwrap returns the compiler's error.
func (e *CompilerError) Unwrap() error { return e.cause }

// task is code to compile.
type task struct {
	from       action.CodeFrom
	hash       primitives.Hash
	code       []byte
	rules      *parameters.Wasm
	traced     bool
	background bool
	placed     bool // the caller called Pool.Ahead for the task, so Pool.Compile does not wait
	cancel     <-chan struct{}
	file       bool // the artifact is for v.cache, so the compiler may write it to a TempFile of the cache
	// refusal is the artifact that says that the code breaks a rule. refusal is set if a build for
	// the shared key has found the broken rule (see make). The cache stores refusal under the
	// code's own key. nil: none.
	refusal *cache.Artifact
	built   bool // build has been called
}

func (v *VM) prepare(t *task) (*prep.Module, error) {
	if t.traced {
		return prep.PrepareTraced(t.code, t.rules)
	}
	return prep.Prepare(t.code, t.rules)
}

// name returns the task's name in the compiler's quarantine.
func (v *VM) name(t *task) string {
	rules, _ := v.rules(t.rules)
	name := fmt.Sprintf("%x-%x", t.hash[:], rules[:8])
	if t.traced {
		name += "-traced"
	}
	return name
}

// build prepares and compiles code. For code that breaks a rule it returns an artifact with the
// error of package prep. Errors of the compiler are returned as errors, so they are never cached.
func (v *VM) build(t *task) (cache.Artifact, error) {
	var a cache.Artifact
	temp := ""
	defer func() {
		if temp != "" && a.File == "" {
			_ = os.Remove(temp)
		}
	}()
	t.built = true
	begun, began := false, time.Time{}
	defer func() {
		if begun {
			gcTuning.end()
			v.usage.compiled(t.from, time.Since(began))
		}
	}()
	code, err := v.compiler.Compile(&compiler.Job{
		Name: v.name(t), Code: t.hash, Size: len(t.code), Background: t.background, Placed: t.placed, Cancel: t.cancel,
		Prepare: func() (wasm []byte, err error) {
			begun, began = true, time.Now()
			gcTuning.begin()
			a, wasm, err = prepared(v.prepare(t))
			// Preparation leaves at least as much garbage as wasm is long, and the compiler now
			// needs memory too.
			if len(wasm) >= largeArtifact {
				go v.collector.run() // concurrently: a block may be waiting for the compiler
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

// prepared returns the artifact without machine code, and the wasm module to compile. wasm is nil if
// there is nothing to compile.
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
	if p.LoadFails || i.strange != "" { // the code cannot run in any version, so it needs no machine code
		return a, nil, nil
	}
	return a, p.Code, nil
}

// largeArtifact is the size in bytes of an artifact, or of a prepared module, from which a garbage
// collection is worthwhile. Without a collection, the memory of the next compilation would come on
// top of the garbage.
const largeArtifact = 4 << 20

// localsText is the error text of neard's compiler for a function with too many locals
// (prep.Module.CompileFails).
const localsText = "failed to compile: Invalid input WebAssembly code: too many locals: locals exceed maximum"

func negative(e *primitives.CompilationError) cache.Artifact {
	return cache.Artifact{Info: (&info{compilation: e}).appendBorsh(nil)}
}

// isNegative returns whether an artifact belongs to code that breaks a rule and so cannot run.
func isNegative(a *cache.Artifact) bool { return len(a.Info) > 0 && a.Info[0] == 1 }

// newCompiler returns the compiler pool of a VM.
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
		// The marks are in the folder of the version's artifacts, so that marks and artifacts are
		// removed together.
		c.Dir = filepath.Join(o.Dir, version(), "marks")
	}
	return compiler.New(c)
}

// ServeCompiler makes this process a compiler child of a VM with Options.Compiler. ServeCompiler
// serves requests until the parent ends or retires the child, and returns the exit code. before, if
// not nil, is called before each compilation; for tests.
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
