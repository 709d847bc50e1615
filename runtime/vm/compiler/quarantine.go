package compiler

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Place is where a compilation runs: in this process or in a child process.
type Place string

// The places. If a process ended while it compiled in itself, the compiler most likely crashed it.
// If it ended while its child compiled, the compiler most likely did not.
const (
	InProcess Place = "here"
	InChild   Place = "child"
)

// Quarantine remembers code that the compiler failed on. Safe for concurrent use.
//
// The problem: code that crashes the compiler would be compiled again after every restart, and in
// the background as often as it is deployed. But a block that calls it must be applied if at all
// possible, since other nodes can.
//
// Outline: a file (mark) exists for each running compilation and for each failed one, so the memory
// outlives a crash of the process. A mark of a compilation in this process that is found at the
// start means that it ended the process. A mark of a compilation in a child is a suspicion: it
// counts as a failure after the process has ended that way several times in succession (maxInterrupted).
//
// Invariants: background jobs do not compile barred code. Jobs for a block always do, and success
// clears the mark. Marks of another build are dropped, since its compiler may differ. Memory and
// files are bounded by mostMarks; the oldest mark is removed first. If the folder cannot be used, marks
// are kept in memory only: a mark decides only whether to try again.
type Quarantine struct {
	dir, build string // dir empty: memory only

	mu     sync.Mutex
	barred map[string]string // Job.Name -> text of the compiler's failure
	begun  map[string]int    // number of earlier processes that ended while a child of theirs compiled it
	order  []string          // names in barred and begun, oldest first
}

// mostMarks bounds the number of marks.
const mostMarks = 4096

// maxInterrupted is the number of consecutive node processes that must end while a child compiles the
// same code before the code is barred. It is high because a child can hardly harm its parent, while power
// cuts and kills may happen several times in succession. If code is barred without cause, view calls of
// it fail until a block has called it.
const maxInterrupted = 5

// OpenQuarantine reads the marks in dir. If the folder cannot be read or written, marks are kept in
// memory only.
func OpenQuarantine(dir, build string) *Quarantine {
	q := &Quarantine{dir: dir, build: build, barred: map[string]string{}, begun: map[string]int{}}
	if dir == "" {
		return q
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		q.dir = ""
		return q
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		q.dir = ""
		return q
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Name() < files[j].Name() })
	for _, f := range files {
		b, err := os.ReadFile(q.path(f.Name()))
		m, ok := parseMark(b)
		if err != nil || !ok || m.build != build || strings.HasSuffix(f.Name(), halfSuffix) {
			q.remove(f.Name())
			continue
		}
		switch {
		case m.place == "":
			q.bar(f.Name(), m.why)
		case m.place == InProcess || m.count+1 >= maxInterrupted:
			q.Bar(f.Name(), "the process ended while it was compiled")
		default:
			q.remember(f.Name())
			q.begun[f.Name()] = m.count + 1
		}
	}
	return q
}

// mark is the content of a file. place is empty if the compiler failed.
type mark struct {
	place Place
	count int // number of earlier processes that ended during the compilation
	build string
	why   string
}

const halfSuffix = "~"

const markMagic = "troupe mark 1"

func (m *mark) bytes() []byte {
	return fmt.Appendf(nil, "%s\n%s\n%d\n%s\n%s", markMagic, m.place, m.count, strconv.Quote(m.build), m.why)
}

func parseMark(b []byte) (m mark, ok bool) {
	part := strings.SplitN(string(b), "\n", 5)
	if len(part) != 5 || part[0] != markMagic {
		return m, false
	}
	count, err := strconv.Atoi(part[2])
	build, err2 := strconv.Unquote(part[3])
	m = mark{Place(part[1]), count, build, part[4]}
	return m, err == nil && err2 == nil && count >= 0 && count < 1<<20 && (m.place == "" || m.place == InProcess || m.place == InChild)
}

func (q *Quarantine) path(name string) string { return filepath.Join(q.dir, name) }

func (q *Quarantine) write(name string, m mark) {
	if q.dir == "" {
		return
	}
	m.build = q.build
	path := q.path(name)
	// A partial mark counts as none. Renaming makes sure that a mark under its name is complete.
	half := path + halfSuffix
	if os.WriteFile(half, m.bytes(), 0o600) != nil || os.Rename(half, path) != nil {
		_ = os.Remove(half) // a full disk would otherwise keep one per contract
	}
}

func (q *Quarantine) remove(name string) {
	if q.dir != "" {
		_ = os.Remove(q.path(name))
	}
}

// Mark records that a compilation begins.
func (q *Quarantine) Mark(name string, place Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, barred := q.barred[name]; !barred { // a failure takes precedence
		q.write(name, mark{place: place, count: q.begun[name]})
	}
}

// Unmark records that a compilation ended without a conclusion.
func (q *Quarantine) Unmark(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, barred := q.barred[name]; !barred {
		q.remove(name)
	}
}

// Clear records that a compilation succeeded.
func (q *Quarantine) Clear(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(name)
}

func (q *Quarantine) forget(name string) {
	q.remove(name)
	_, barred := q.barred[name]
	_, begun := q.begun[name]
	if !barred && !begun {
		return
	}
	delete(q.barred, name)
	delete(q.begun, name)
	for i, other := range q.order {
		if other == name {
			q.order = append(q.order[:i:i], q.order[i+1:]...)
			break
		}
	}
}

// Bar records that a compilation failed.
func (q *Quarantine) Bar(name, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bar(name, why)
	q.write(name, mark{why: why})
}

func (q *Quarantine) bar(name, why string) {
	q.remember(name)
	q.barred[name] = why
	delete(q.begun, name)
}

func (q *Quarantine) remember(name string) {
	_, barred := q.barred[name]
	_, begun := q.begun[name]
	if barred || begun {
		return
	}
	for len(q.order) >= mostMarks {
		q.forget(q.order[0])
	}
	q.order = append(q.order, name)
}

// Barred returns whether the compiler failed on the code, and why.
func (q *Quarantine) Barred(name string) (why string, barred bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	why, barred = q.barred[name]
	return why, barred
}

// Len returns the number of barred names.
func (q *Quarantine) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.barred)
}
