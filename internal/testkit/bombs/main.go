// Command bombs compiles contracts that are hard to compile, each in a process of its own, and
// prints the processor time, peak memory and size of the artifact, each as a share of the bound in
// docs/performance.md. With -search it also generates random shapes and mutates the worst of them.
//
//	in      shapes of package internal/testkit/contracts/compilebombs
//	out     a table, the worst first
//	state   none; the search depends on the seed and on measured times
//	units   KB of 1,000 bytes, MiB; processor time of preparation plus compilation
//	bound   90 s a shape
//	errors  a compiler that fails or crashes ends the program
//	source  our own
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// result is what compiling one contract has cost.
type result struct {
	Shape    compilebombs.Shape
	Wasm     int     // size of the wasm module in bytes
	Prepared int     // size in bytes of the module that package prep passes to the code generator
	Artifact int     // size of the compiled artifact in bytes
	CPU      float64 // processor time of preparation and compilation in seconds
	RSS      int     // peak memory of the compiling process in bytes
	Refused  string  // error of package prep; empty: it accepted the module
	Killed   bool    // true: the time limit ended the compiling process
}

func (r *result) kb() float64 { return float64(r.Wasm) / 1000 }

// ratios returns processor time, peak memory and artifact size, each as a share of its bound.
func (r *result) ratios() (cpu, rss, artifact float64) {
	bound := compiler.BoundOf(r.Wasm)
	return r.CPU / bound.CPU.Seconds(), float64(r.RSS) / float64(bound.Memory), float64(r.Artifact) / float64(bound.Output)
}

func seconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peak returns the peak memory of the process. getrusage would return the parent's, from before
// exec.
func peak() int {
	b, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n << 10
		}
	}
	return 0
}

// encode returns the wasm module that a Shape describes.
func encode(s *compilebombs.Shape) []byte {
	if n, ok := strings.CutPrefix(s.Name, "ordinary "); ok {
		size, _ := strconv.Atoi(n)
		return contracts.Large(size, 1)
	}
	return s.Encode()
}

// child compiles the shape on its input and prints the result.
func child() error {
	runtime.GOMAXPROCS(1)
	var s compilebombs.Shape
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	e, err := engine.New(engine.Options{Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		return err
	}
	r := result{Shape: s}
	code := encode(&s)
	r.Wasm = len(code)
	begun := seconds()
	w := &parameters.MustGet(parameters.June(86)).Wasm
	m, err := prep.Prepare(code, w)
	switch {
	case err != nil:
		r.Refused = err.Error()
	case m.CompileFails || m.LoadFails:
		r.Refused = "compile or load fails"
	default:
		code = nil
		r.Prepared = len(m.Code)
		a, err := e.Compile(m.Code)
		if err != nil {
			return err
		}
		r.Artifact = len(a)
	}
	r.CPU, r.RSS = seconds()-begun, peak()
	return json.NewEncoder(os.Stdout).Encode(r)
}

func measure(s compilebombs.Shape) (*result, error) {
	in, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-child")
	// the environment that a node gives to its compiler processes
	c.Env = append(os.Environ(), compiler.GiveBack)
	var out, fault bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &fault
	if err := c.Start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(90*time.Second, func() { _ = c.Process.Kill() })
	err = c.Wait()
	if !late.Stop() {
		return &result{Shape: s, Wasm: len(s.Encode()), CPU: 90, Killed: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%+v: %w\n%s", s, err, fault.Bytes())
	}
	r := &result{}
	return r, json.Unmarshal(out.Bytes(), r)
}

func print(list []*result, n int) {
	fmt.Printf("| shape | wasm KB | s | MiB | artifact KB | of the bound: time, memory, artifact |\n|---|---|---|---|---|---|\n")
	for _, r := range list[:min(n, len(list))] {
		a, b, c := r.ratios()
		name := r.Shape.Name
		if name == "random" {
			name = fmt.Sprintf("%+v", r.Shape)
		}
		if r.Refused != "" {
			name += " (" + r.Refused + ")"
		}
		fmt.Printf("| %s | %.1f | %.2f | %d | %d | %.2f, %.2f, %.2f |\n", name, r.kb(), r.CPU, r.RSS>>20, r.Artifact/1000, a, b, c)
	}
}

func main() {
	isChild := flag.Bool("child", false, "compile the shape on the input")
	rounds := flag.Int("search", 0, "so many steps of the search")
	seed := flag.Uint64("seed", 1, "of the search")
	only := flag.String("only", "", "shapes whose name has this in it")
	top := flag.Int("top", 40, "how many are printed")
	by := flag.String("by", "all", "what the search wants to be large: time, memory, artifact, all")
	flag.Parse()
	var err error
	if *isChild {
		err = child()
	} else {
		err = run(*rounds, *seed, *only, *top, *by)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rounds int, seed uint64, only string, top int, by string) error {
	var list []*result
	shapes := append(compilebombs.Known(), compilebombs.Listed()...)
	shapes = append(shapes, compilebombs.Shape{Name: "ordinary 250000"}, compilebombs.Shape{Name: "ordinary 1000000"})
	for _, s := range shapes {
		if !strings.Contains(s.Name, only) {
			continue
		}
		r, err := measure(s)
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	score := func(r *result) float64 {
		a, b, c := r.ratios()
		switch {
		case r.Refused != "":
			return 0
		case by == "time":
			return a
		case by == "memory":
			return b
		case by == "artifact":
			return c
		}
		return max(a, b, c)
	}
	sort.SliceStable(list, func(i, j int) bool { return score(list[i]) > score(list[j]) })
	r := rand.New(rand.NewPCG(seed, 0))
	var pool []*result // results with the highest scores so far
	for i := range rounds {
		s := compilebombs.Random(r)
		if len(pool) > 0 && i > rounds/5 {
			s = compilebombs.Mutate(pool[r.IntN(len(pool))].Shape, r)
		}
		got, err := measure(s)
		if err != nil {
			return err
		}
		list = append(list, got)
		pool = append(pool, got)
		sort.SliceStable(pool, func(i, j int) bool { return score(pool[i]) > score(pool[j]) })
		if pool[0] == got {
			fmt.Fprintf(os.Stderr, "%d: %.2f %+v\n", i, score(got), got.Shape)
		}
		pool = pool[:min(len(pool), 12)]
	}
	sort.SliceStable(list, func(i, j int) bool { return score(list[i]) > score(list[j]) })
	print(list, top)
	return nil
}
