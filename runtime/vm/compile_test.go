package vm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm/cache"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
)

// childEnv is the environment variable that makes this test binary a compiler child. Its value names a
// fault and the code for which the child has it: "abort HASH" and the like.
const childEnv = "TROUPE_TEST_COMPILER"

func TestMain(m *testing.M) {
	if does, child := os.LookupEnv(childEnv); child {
		what, hash, _ := strings.Cut(does, " ")
		if what == "garbage" {
			os.Exit(compiler.Main(version(), func(*compiler.Request) ([]byte, error) { return []byte("garbage"), nil }))
		}
		os.Exit(ServeCompiler(func(code primitives.Hash) {
			if hex.EncodeToString(code[:]) == hash {
				misbehave(what)
			}
		}))
	}
	os.Exit(m.Run())
}

func misbehave(what string) {
	switch what {
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	case "panic":
		panic("oh")
	}
}

// children returns the Options.Compiler that starts this test binary as a child with the given fault.
func children(t *testing.T, does string, code []byte) compiler.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hash := primitives.HashBytes(code)
	return compiler.Command{Path: self, Env: []string{fmt.Sprintf("%s=%s %x", childEnv, does, hash[:])}}
}

func openVM(t *testing.T, o Options) *VM {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeVM(v) })
	return v
}

// closeVM closes a VM that the test may have closed already.
func closeVM(v *VM) {
	v.precompiles.mu.Lock()
	ended := v.precompiles.ended
	v.precompiles.mu.Unlock()
	if !ended {
		v.Close()
	}
}

// TestCompilerChildMakesSameArtifacts checks that a child and this process produce the same
// artifacts, byte for byte.
func TestCompilerChildMakesSameArtifacts(t *testing.T) {
	codes := map[string][]byte{"empty": wat(t, `(module (func (export "main")))`), "nop": smallContract(t, 1)}
	for _, s := range contracts.Sources {
		codes[s.Name] = contracts.C(s.Name)
	}
	here, there := openVM(t, Options{}), openVM(t, Options{Compiler: children(t, "", nil)})
	rules := &call(nil, "main", 0).Block.Config.Wasm
	for name, code := range codes {
		for _, traced := range []bool{false, true} {
			task := &task{hash: primitives.HashBytes(code), code: code, rules: rules, traced: traced}
			a, err := here.build(task)
			if err != nil {
				t.Fatal(err)
			}
			b, err := there.build(task)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Code) == 0 || !bytes.Equal(a.Code, b.Code) || !bytes.Equal(a.Info, b.Info) || a.Source != len(code) {
				t.Errorf("%s, traced %v: %d bytes and %d of a child", name, traced, len(a.Code), len(b.Code))
			}
		}
	}
	// A child whose memory has grown is ended, and another one is started.
	if s := there.Stats().Compiler; s.Started == 0 || s.Deaths > 0 || s.InProcess != 0 {
		t.Errorf("%+v", s)
	}
}

// smallContract returns a small contract, a different one for each n.
func smallContract(t testing.TB, n int) []byte {
	return wat(t, fmt.Sprintf(`(module (func (export "main") (drop (i32.const %d))))`, n))
}

// TestCompilerFailureIsNotCallOutcome checks that a failure of the compiler child is an error and
// not the outcome of the call, and that the failure is not cached: a VM with a fixed compiler and
// the same folder runs the code. Other code is not affected. Views do not retry the compilation,
// and the code is not precompiled.
func TestCompilerFailureIsNotCallOutcome(t *testing.T) {
	bad, good := smallContract(t, 2), smallContract(t, 3)
	for _, does := range []string{"abort", "panic", "garbage"} {
		t.Run(does, func(t *testing.T) {
			dir := t.TempDir()
			v := openVM(t, Options{Dir: dir, Compiler: children(t, does, bad)})
			beside := call(bad, "main", 10*tera)
			block := *beside.Block
			block.Beside = true
			beside.Block = &block
			<-v.Warm(action.CodeFrom{}, bad, &block.Config.Wasm)
			for n := range 3 {
				for _, c := range []*action.Call{beside, call(bad, "main", 10*tera)} {
					before := v.Stats().Compiler
					out, err := v.run(c, &world{})
					var e *CompilerError
					if !errors.As(err, &e) || !errors.Is(err, ErrCompiler) || e.CodeHash != c.CodeHash || e.Reason == "" {
						t.Errorf("%d: %s, err = %v, want a CompilerError", n, ended(&out), err)
					}
					if s := v.Stats().Compiler; does != "garbage" && c.Block.Beside && s.Deaths != before.Deaths {
						t.Errorf("a view had it compiled again: %+v", s)
					}
				}
			}
			watched := v.Watch(ignoringWatcher{})
			defer watched.Close()
			c := *beside
			if _, err := watched.run(&c, &world{}); !errors.Is(err, ErrCompiler) {
				t.Errorf("a trace: err = %v", err)
			}
			if does != "garbage" {
				if out, err := v.run(call(good, "main", 10*tera), &world{}); err != nil || out.Err != nil {
					t.Errorf("other code: %s, %v", ended(&out), err)
				}
			}
			if v.Ready(primitives.HashBytes(bad), &block.Config.Wasm) && does != "garbage" {
				t.Error("Ready returns true for code that failed to compile")
			}
			closeVM(v)
			want, err := openVM(t, Options{}).run(call(bad, "main", 10*tera), &world{})
			if err != nil {
				t.Fatal(err)
			}
			mended := openVM(t, Options{Dir: dir, Compiler: children(t, "", nil)})
			if does != "garbage" {
				if s := mended.Stats().Compiler; s.Quarantined == 0 {
					t.Errorf("nothing is known of it after a restart: %+v", s)
				}
			}
			got, err := mended.run(call(bad, "main", 10*tera), &world{})
			if err != nil || ended(&got) != ended(&want) {
				t.Errorf("mended: %s, %v, want %s", ended(&got), err, ended(&want))
			}
			if got, err = mended.run(beside, &world{}); err != nil {
				t.Errorf("a view with the fixed compiler: %s, %v", ended(&got), err)
			}
		})
	}
}

// TestChangedArtifactFolderKeepsOutcomes changes the folder of artifacts and marks, and checks that
// a call has the same outcome as without a folder. It truncates, overwrites and exchanges files,
// replaces files by folders and folders by files, adds marks of failed compilations, and removes
// the folder while the VM runs.
func TestChangedArtifactFolderKeepsOutcomes(t *testing.T) {
	first, second := smallContract(t, 11), wat(t, `(module (func (export "main") unreachable))`)
	plain := openVM(t, Options{})
	want := map[string]string{}
	for _, code := range [][]byte{first, second} {
		out, err := plain.run(call(code, "main", 10*tera), &world{})
		if err != nil {
			t.Fatal(err)
		}
		want[string(code)] = ended(&out)
	}
	each := func(dir string, do func(path string, b []byte)) {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(dir, version(), "*"))
		if len(files) < 4 {
			t.Fatalf("only %v exist, want four files", files)
		}
		for _, path := range files {
			if b, err := os.ReadFile(path); err == nil {
				do(path, b)
			}
		}
	}
	// Write a new file: overwriting a file that is mapped would change running code.
	write := func(path string, b []byte) {
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(code []byte) string { h := primitives.HashBytes(code); return hex.EncodeToString(h[:]) }
	for name, harm := range map[string]func(dir string){
		"cut":   func(dir string) { each(dir, func(path string, b []byte) { write(path, b[:len(b)/2]) }) },
		"empty": func(dir string) { each(dir, func(path string, b []byte) { write(path, nil) }) },
		"overwritten": func(dir string) {
			each(dir, func(path string, b []byte) { write(path, bytes.Repeat([]byte{0x55}, len(b))) })
		},
		"exchanged": func(dir string) {
			content := map[string][]byte{}
			each(dir, func(path string, b []byte) { content[path] = b })
			for path := range content {
				other := strings.Replace(path, hash(first), hash(second), 1)
				if other == path {
					other = strings.Replace(path, hash(second), hash(first), 1)
				}
				write(path, content[other])
			}
		},
		"folders": func(dir string) {
			each(dir, func(path string, b []byte) {
				if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700)); err != nil {
					t.Fatal(err)
				}
			})
		},
		"marks": func(dir string) {
			q := compiler.OpenQuarantine(filepath.Join(dir, version(), "marks"), "")
			for _, code := range [][]byte{first, second} {
				q.Bar(plain.name(&task{hash: primitives.HashBytes(code), rules: &call(nil, "", 0).Block.Config.Wasm}), "it is said")
			}
			each(dir, func(path string, b []byte) { _ = os.Remove(path) })
		},
		"no marks": func(dir string) {
			marks := filepath.Join(dir, version(), "marks")
			_ = os.RemoveAll(marks)
			write(marks, []byte("a file"))
			each(dir, func(path string, b []byte) {
				if path != marks {
					_ = os.Remove(path)
				}
			})
		},
		"gone": func(dir string) { _ = os.RemoveAll(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(v *VM, when string) {
				t.Helper()
				for _, code := range [][]byte{first, second} {
					if out, err := v.run(call(code, "main", 10*tera), &world{}); err != nil || ended(&out) != want[string(code)] {
						t.Errorf("%s: %s, %v, want %s", when, ended(&out), err, want[string(code)])
					}
				}
			}
			o := Options{Dir: dir, Memory: 1, Compiler: children(t, "", nil)} // no room: from disk each time
			v := openVM(t, o)
			run(v, "before")
			harm(dir)
			run(v, "while it runs")
			closeVM(v)
			harmed := openVM(t, o)
			run(harmed, "after a start")
			run(harmed, "and again")
		})
	}
}

// TestChildrenRunAfterBinaryIsRemoved checks that children still run this binary after its file was
// removed or replaced.
func TestChildrenRunAfterBinaryIsRemoved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("by /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	const env = "TROUPE_TEST_GONE"
	if path := os.Getenv(env); path != "" { // the process below
		if err := os.Remove(self); err != nil {
			t.Fatal(err)
		}
		if path == "replaced" {
			if err := os.WriteFile(self, []byte("#!/bin/false\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		v := openVM(t, Options{Compiler: compiler.Command{Path: compiler.Self, Env: []string{childEnv + "="}}})
		out, err := v.run(call(smallContract(t, 12), "main", 10*tera), &world{})
		if s := v.Stats().Compiler; err != nil || out.Err != nil || s.Started != 1 || s.InProcess != 0 {
			t.Errorf("%s, %v, %+v", ended(&out), err, s)
		}
		return
	}
	for _, how := range []string{"removed", "replaced"} {
		path := filepath.Join(t.TempDir(), "node")
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(path, "-test.run=^TestChildrenRunAfterBinaryIsRemoved$", "-test.v")
		c.Env = append(os.Environ(), env+"="+how)
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}

// ignoringWatcher is a Watcher that ignores all events.
type ignoringWatcher struct{}

func (ignoringWatcher) CallBegins(*action.Call)          {}
func (ignoringWatcher) Enter(string, primitives.Gas)     {}
func (ignoringWatcher) Leave(primitives.Gas)             {}
func (ignoringWatcher) HostCall(*HostCall)               {}
func (ignoringWatcher) CallEnds(out *action.CallOutcome) {}

// TestCrashDuringCompilationQuarantinesCode checks what happens to code during whose compilation
// this process ended. The next process does not precompile it, but compiles it when a block calls
// it. A process of a newer build ignores the mark.
func TestCrashDuringCompilationQuarantinesCode(t *testing.T) {
	dir, code := t.TempDir(), smallContract(t, 4)
	rules := &call(code, "main", 0).Block.Config.Wasm
	v := openVM(t, Options{Dir: dir, Build: "1"})
	name := v.name(&task{hash: primitives.HashBytes(code), code: code, rules: rules})
	closeVM(v)
	marks := filepath.Join(dir, version(), "marks")
	compiler.OpenQuarantine(marks, "1").Mark(name, compiler.InProcess) // and it ends
	v = openVM(t, Options{Dir: dir, Build: "1"})
	<-v.Warm(action.CodeFrom{}, code, rules)
	if s := v.Stats(); s.Compiler.Refused != 1 || s.Compiler.InProcess != 0 || s.Alarms != 0 {
		t.Errorf("%+v, want no compilation", s)
	}
	closeVM(v)
	v = openVM(t, Options{Dir: dir, Build: "2"})
	<-v.Warm(action.CodeFrom{}, code, rules)
	if s := v.Stats(); s.Compiler.Refused != 0 || s.Compiler.InProcess != 1 {
		t.Errorf("%+v, want it compiled by another build", s)
	}
	if files, err := os.ReadDir(marks); err != nil || len(files) != 0 {
		t.Errorf("marks %v, %v", files, err)
	}
}

// TestNativeStackOverflowIsNodeError checks that an overflow of the native stack is an error of the
// node and not the outcome of the call.
func TestNativeStackOverflowIsNodeError(t *testing.T) {
	alarms := 0
	v := openVM(t, Options{Alarm: func(error) { alarms++ }})
	c := call(smallContract(t, 5), "main", tera)
	l := logic.New(c, &world{}, c.Block.Config)
	out, err := v.end(l, engine.Outcome{End: engine.Trapped, Trap: engine.StackOverflow, Gas: 1})
	if !errors.Is(err, ErrStackOverflow) || out.Err != nil || alarms != 1 {
		t.Errorf("%s, err = %v, %d alarms", ended(&out), err, alarms)
	}
}

// TestUnloadableCodeIsNodeError checks the error of the node for machine code that cannot be
// loaded.
func TestUnloadableCodeIsNodeError(t *testing.T) {
	v := openVM(t, Options{})
	a, err := v.build(&task{hash: primitives.Hash{1}, code: smallContract(t, 6), rules: &call(nil, "", 0).Block.Config.Wasm})
	if err != nil {
		t.Fatal(err)
	}
	var load *loadError
	if _, err := (loader{v.engine}).Load(cache.Artifact{Info: a.Info, Code: []byte("garbage")}); !errors.As(err, &load) {
		t.Errorf("err = %v", err)
	}
}

// TestCodeThatDoesNotLoadRaisesAlarm checks that there is no alarm if the code was loaded by a
// closed engine.
func TestCodeThatDoesNotLoadRaisesAlarm(t *testing.T) {
	var said []error
	v := openVM(t, Options{Alarm: func(err error) { said = append(said, err) }})
	var failed *CompilerError
	if err := v.notLoaded(primitives.Hash{1}, &loadError{engine.ErrClosed}); !errors.Is(err, engine.ErrClosed) || errors.As(err, &failed) || len(said) != 0 {
		t.Errorf("got %v, alarms %v", err, said)
	}
	if err := v.notLoaded(primitives.Hash{1}, &loadError{errors.New("garbage")}); !errors.As(err, &failed) || len(said) != 1 {
		t.Errorf("got %v, alarms %v", err, said)
	}
}

// TestBackgroundCompilationDelaysNoCall checks that code of a call is compiled without delay while
// the maximum number of background compilations runs.
func TestBackgroundCompilationDelaysNoCall(t *testing.T) {
	if testing.Short() || testutil.Racing {
		t.Skip("compiles large contracts")
	}
	v := openVM(t, Options{Compiler: children(t, "", nil), Builders: 2})
	large := contracts.Large(250<<10, 1)
	rules := &call(nil, "", 0).Block.Config.Wasm
	var waits []<-chan struct{}
	for i := range 4 {
		waits = append(waits, v.Warm(action.CodeFrom{}, append(bytes.Clone(large), 0, 2, 1, byte(i)), rules)) // a custom section each
	}
	begin := time.Now()
	out, err := v.run(call(smallContract(t, 7), "main", 10*tera), &world{})
	if err != nil || out.Err != nil {
		t.Fatalf("%s, %v", ended(&out), err)
	}
	took := time.Since(begin)
	open := 0
	for _, w := range waits {
		select {
		case <-w:
		default:
			open++
		}
	}
	if open < 3 {
		t.Errorf("the call took %v, in which %d of 4 large contracts were compiled", took, 4-open)
	}
}

// TestPrecompileDoesNotDelayCalls checks that a call of other code is compiled at once while the
// maximum of precompilations runs.
func TestPrecompileDoesNotDelayCalls(t *testing.T) {
	if testing.Short() || testutil.Racing {
		t.Skip("compiles large contracts")
	}
	v := openVM(t, Options{Compiler: children(t, "", nil), Builders: 2})
	large := contracts.Large(1<<20, 1)
	rules := &call(nil, "", 0).Block.Config.Wasm
	ended := make(chan time.Time, 5)
	for i := range 5 {
		code := append(bytes.Clone(large), 0, 2, 1, byte(i)) // a custom section each
		if i == 4 {
			code = smallContract(t, 8)
		}
		go func() {
			v.Precompile(action.CodeFrom{}, code, rules)
			ended <- time.Now()
		}()
		if i == 3 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, code := range [][]byte{smallContract(t, 7), smallContract(t, 8)} {
		if out, err := v.run(call(code, "main", 10*tera), &world{}); err != nil || out.Err != nil {
			t.Fatal(out, err)
		}
	}
	done, before := time.Now(), 0
	for range 5 {
		if (<-ended).Before(done) {
			before++
		}
	}
	if before > 0 {
		t.Errorf("two small calls waited for %d large compilations", before)
	}
	if s := v.Stats(); s.Builds != 6 {
		t.Errorf("%d compilations, want 6", s.Builds)
	}
}

// BenchmarkCompile measures the time that a child adds to a compilation: with an idle child, and with one
// that must be started.
func BenchmarkCompile(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	command := compiler.Command{Path: self, Env: []string{childEnv + "="}}
	for _, where := range []struct {
		name string
		o    Options
	}{{"here", Options{}}, {"child", Options{Compiler: command}}, {"new", Options{Compiler: command, CompilerIdle: time.Nanosecond}}} {
		for _, size := range []int{300, 30 << 10, 250 << 10} {
			v, err := New(where.o)
			if err != nil {
				b.Fatal(err)
			}
			code := smallContract(b, 1)
			if size > 1000 {
				code = contracts.Large(size, 1)
			}
			t := &task{hash: primitives.HashBytes(code), code: code, rules: &call(nil, "", 0).Block.Config.Wasm}
			b.Run(fmt.Sprintf("by=%s/wasm=%dB", where.name, len(code)), func(b *testing.B) {
				for b.Loop() {
					if _, err := v.build(t); err != nil {
						b.Fatal(err)
					}
				}
			})
			v.Close()
		}
	}
}

// TestChildPassesArtifactInFile checks that a child passes its artifact to the cache in a file,
// that the artifact is the one this process produces, and that a child that fails or is killed
// leaves no file.
func TestChildPassesArtifactInFile(t *testing.T) {
	code, dir := smallContract(t, 1), t.TempDir()
	files := func() (list []string) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.Contains(path, "marks") {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(list)
		return list
	}
	broken := openVM(t, Options{Compiler: children(t, "abort", code), Dir: dir})
	if _, err := broken.run(call(code, "main", 300*tera), &world{}); !errors.Is(err, ErrCompiler) {
		t.Errorf("a child that aborts: err = %v", err)
	}
	if list := files(); len(list) > 0 {
		t.Errorf("the failed child left files %v", list)
	}
	closeVM(broken)
	v := openVM(t, Options{Compiler: children(t, "", nil), Dir: dir})
	if _, err := v.run(call(code, "main", 300*tera), &world{}); err != nil {
		t.Fatal(err)
	}
	list := files()
	if s := v.Stats(); s.Compiler.Started != 1 || s.Compiler.InProcess != 0 || s.DiskErrors != 0 || s.Whole != 0 || len(list) != 2 {
		t.Fatalf("%+v, files %v", s, list)
	}
	got, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := openVM(t, Options{}).build(&task{hash: primitives.HashBytes(code), code: code, rules: &call(nil, "main", 0).Block.Config.Wasm})
	if err != nil || !bytes.Equal(got, want.Code) {
		t.Errorf("%s has %d bytes, want %d; %v", list[0], len(got), len(want.Code), err)
	}
}
