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

// Options say in which environment the blocks of a page are run.
type Options struct {
	Folder string                 // working folder of new terminals; the folder bin in it is in PATH
	Files  map[string]string      // texts of files to create before the first block, by path in Folder
	Env    []string               // environment variables in addition to those of the test
	Has    func(name string) bool // returns whether the page may use a program; nil: if exec.LookPath finds it
	Wait   time.Duration          // time limit of a block; 0: three minutes
}

// Run types all blocks of a page, in order. It replaces /tmp/ in them by a folder of the test, and
// ports by free ones, so that it does not disturb other nodes and tests. It ends every process that
// it started.
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
	ports     map[int]int // port in the page -> port in this run
	base      int         // port in this run that stands for localnetPorts; 0: not chosen yet
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

// write creates a file. A relative name is in Options.Folder.
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

// localnetPorts is the first of the 200 ports that a page may use for a local network.
const localnetPorts = 24600

var (
	tmpPath = regexp.MustCompile(`/tmp/`)
	port    = regexp.MustCompile(`\b(303\d|4222|245\d\d|24[67]\d\d)\b`)
)

func (r *run) rewrite(text string) string {
	text = tmpPath.ReplaceAllLiteralString(text, r.tmp+"/")
	return port.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s) // cannot fail: the expression matches only digits
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

// freePort returns a free port below the range from which the system chooses ports.
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

// terminal is a running shell. Its variables and functions remain from block to block.
type terminal struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // standard input of the shell
	idle  io.Closer      // write end of the commands' standard input, which stays open and empty
	ended chan struct{}
	// mark that the shell prints when the command that keeps running has ended; empty: none runs
	running string
	marks   int
	from    int // offset in out at which the output of the last block begins

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
	keys, idle, err := os.Pipe() // a pipe on which no key is ever pressed
	if err != nil {
		r.t.Fatal(err)
	}
	w := &terminal{in: in, idle: idle, ended: make(chan struct{}), cmd: exec.Command(bash, "--noprofile", "--norc", "/dev/fd/3")}
	w.cmd.Dir, w.cmd.ExtraFiles, w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = r.o.Folder, []*os.File{script}, keys, w, w
	// a process group of its own, so that Ctrl-C reaches every command in it
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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

// typed writes a text to the shell. It returns the mark that the shell prints when it has executed
// the text.
func (w *terminal) typed(text string) (mark string) {
	w.mu.Lock()
	w.from = len(w.out)
	w.mu.Unlock()
	w.marks++
	mark = "@done " + strconv.Itoa(w.marks) + "."
	// after an error the shell has ended, so the mark never arrives
	_, _ = io.WriteString(w.in, text+"\necho '"+mark+"'\n")
	return mark
}

// wait waits at most for most until the last block has printed text. It returns the output of the
// block, and whether text is in it.
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

// end ends all processes of the run.
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
		// also end the processes that a killed command has started
		_ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
		<-w.ended
	}
}
