package recipes

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options say where a page is run.
type Options struct {
	Folder string                 // where the terminals begin; bin in it is in PATH
	Files  map[string]string      // what is put into Folder first, with the ports of this run
	Env    []string               // besides the environment of the test
	Has    func(name string) bool // whether a program may be used; nil: exec.LookPath decides
	Wait   time.Duration          // how long a block may take; 0: three minutes
}

// Run types all blocks of a page, in order. /tmp/ in them is a folder of the test, and ports are
// free ones: nodes and tests beside this one are not disturbed. It ends every process that it
// started.
func Run(t *testing.T, blocks []Block, o Options) {
	t.Helper()
	if o.Has == nil {
		o.Has = func(name string) bool { _, err := exec.LookPath(name); return err == nil }
	}
	if o.Wait == 0 {
		o.Wait = 3 * time.Minute
	}
	r := &run{t: t, o: o, tmp: t.TempDir(), terminals: map[string]*terminal{}, ports: map[int]int{}}
	defer r.end()
	for name, text := range o.Files {
		r.write(name, r.rewrite(text))
	}
	for i := range blocks {
		r.block(&blocks[i])
	}
}

type run struct {
	t         *testing.T
	o         Options
	tmp       string
	terminals map[string]*terminal
	ports     map[int]int // of the pages -> of this run
	base      int         // of the ports from localnetPorts on
}

// block runs one block of a page in its terminal, and fails the test if the block fails or does not
// print what it must.
func (r *run) block(b *Block) {
	r.t.Helper()
	for _, name := range b.Needs {
		if !r.o.Has(name) {
			r.t.Logf("skipped: %s:%d needs %s", b.Page, b.Line, name)
			return
		}
	}
	text := r.rewrite(b.Text)
	if b.File != "" {
		r.write(r.rewrite(b.File), text)
	}
	if b.Terminal == "" {
		return
	}
	w := r.terminals[b.Terminal]
	if w == nil {
		w = r.open()
		r.terminals[b.Terminal] = w
	}
	where := fmt.Sprintf("%s:%d, terminal %s", b.Page, b.Line, b.Terminal)
	if b.CtrlC {
		if w.running == "" {
			r.t.Fatalf("%s: nothing runs there", where)
		}
		w.interrupt()
		if out, ok := w.wait(w.running, r.o.Wait); !ok {
			r.t.Fatalf("%s: Ctrl-C does not end it:\n%s", where, out)
		}
		w.running = ""
	}
	if w.running != "" {
		r.t.Fatalf("%s: another command still runs there", where)
	}
	done := w.typed(text)
	until := done
	if b.Until != "" {
		until, w.running = r.rewrite(b.Until), done
	}
	out, ok := w.wait(until, r.o.Wait)
	switch {
	case !ok:
		r.t.Fatalf("%s: no %q in %v:\n%s\nprints\n%s", where, until, r.o.Wait, text, out)
	case strings.Contains(out, failed) || b.Until != "" && strings.Contains(out, done):
		r.t.Fatalf("%s:\n%s\nfails:\n%s", where, text, out)
	}
	for _, want := range b.Prints {
		if !strings.Contains(out, r.rewrite(want)) {
			r.t.Fatalf("%s:\n%s\nprints no %q:\n%s", where, text, want, out)
		}
	}
	if strings.Contains(out, `"error":`) && !strings.Contains(strings.Join(b.Prints, " "), "error") {
		r.t.Fatalf("%s:\n%s\nanswers with an error:\n%s", where, text, out)
	}
}

// write makes a file, in the folder of the terminals unless its name says another one.
func (r *run) write(name, text string) {
	r.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.o.Folder, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// localnetPorts is the first port of networks on one machine, of which a page may use 200.
const localnetPorts = 24600

var (
	tmpPath = regexp.MustCompile(`/tmp/`)
	port    = regexp.MustCompile(`\b(303\d|4222|245\d\d|24[67]\d\d)\b`)
)

func (r *run) rewrite(text string) string {
	text = tmpPath.ReplaceAllLiteralString(text, r.tmp+"/")
	return port.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s) // what the expression takes is a number
		if n >= localnetPorts {
			if r.base == 0 {
				r.base = freeRange(r.t)
			}
			return strconv.Itoa(r.base + n - localnetPorts)
		}
		if r.ports[n] == 0 {
			r.ports[n] = freePort(r.t)
		}
		return strconv.Itoa(r.ports[n])
	})
}

// freePort is below those that the system gives by itself.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		if n := 10_000 + rand.IntN(10_000); isFree(n) {
			return n
		}
	}
	t.Fatal("no port is free")
	return 0
}

func freeRange(t *testing.T) int {
	t.Helper()
next:
	for range 1000 {
		n := 20_000 + 200*rand.IntN(60)
		for i := range 10 {
			if !isFree(n+i) || !isFree(n+100+i) {
				continue next
			}
		}
		return n
	}
	t.Fatal("no range of ports is free")
	return 0
}

func isFree(n int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(n))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// terminal is a shell with its variables and functions.
type terminal struct {
	cmd     *exec.Cmd
	in      io.WriteCloser // what is typed to the shell
	idle    io.Closer      // standard input of the commands, open and empty
	ended   chan struct{}
	running string // the mark that comes when the command that keeps running has ended
	marks   int
	from    int // of the output, where that of the last block begins

	mu  sync.Mutex
	out []byte
}

const failed = "@failed"

func (r *run) open() *terminal {
	r.t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		r.t.Skip("skipped: no bash")
	}
	script, in, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	keys, idle, err := os.Pipe() // a reader that presses no key
	if err != nil {
		r.t.Fatal(err)
	}
	w := &terminal{in: in, idle: idle, ended: make(chan struct{}), cmd: exec.Command(bash, "--noprofile", "--norc", "/dev/fd/3")}
	w.cmd.Dir, w.cmd.ExtraFiles, w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = r.o.Folder, []*os.File{script}, keys, w, w
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal has it: Ctrl-C reaches all of it
	w.cmd.Env = append(os.Environ(), "HOME="+r.tmp, "PATH="+filepath.Join(r.o.Folder, "bin")+":"+os.Getenv("PATH"), "TMPDIR="+r.tmp)
	w.cmd.Env = append(w.cmd.Env, r.o.Env...)
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	_, _ = script.Close(), keys.Close()
	go func() { _ = w.cmd.Wait(); close(w.ended) }()
	w.typed("trap : INT\ntrap 'test $? -ge 128 || echo \"" + failed + " $BASH_COMMAND\"' ERR\n")
	return w
}

// Write stores the output of the shell.
func (w *terminal) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, b...)
	return len(b), nil
}

// typed hands the shell a text, and returns the mark that it prints when all of the text is done.
func (w *terminal) typed(text string) (mark string) {
	w.mu.Lock()
	w.from = len(w.out)
	w.mu.Unlock()
	w.marks++
	mark = "@done " + strconv.Itoa(w.marks) + "."
	_, _ = io.WriteString(w.in, text+"\necho '"+mark+"'\n") // a shell that has ended prints no mark
	return mark
}

// wait returns what the last block has printed, and whether text came in time.
func (w *terminal) wait(text string, most time.Duration) (string, bool) {
	for deadline := time.Now().Add(most); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		out := string(w.out[w.from:])
		w.mu.Unlock()
		if strings.Contains(out, text) {
			return out, true
		}
		select {
		case <-w.ended:
			return out, false
		default:
		}
		if time.Now().After(deadline) || strings.Contains(out, failed) {
			return out, strings.Contains(out, failed)
		}
	}
}

func (w *terminal) interrupt() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT) }

// end stops what runs, like closing the terminals.
func (r *run) end() {
	for name, w := range r.terminals {
		if w.running != "" {
			w.interrupt()
			if out, ok := w.wait(w.running, 30*time.Second); !ok && !r.t.Failed() {
				r.t.Errorf("terminal %s: Ctrl-C does not end what runs:\n%s", name, out)
			}
		}
		_, _ = w.in.Close(), w.idle.Close()
		select {
		case <-w.ended:
		case <-time.After(5 * time.Second):
		}
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) // what a killed command left behind
		<-w.ended
	}
}
