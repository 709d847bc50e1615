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

// The places. If a node process ended during a compilation in the node process itself, most likely
// the compiler crashed the node process. If a node process ended during a compilation in a child,
// most likely the compiler was not the cause.
const (
	InProcess Place = "here"
	InChild   Place = "child"
)

// Quarantine remembers code that the compiler failed on. Safe for concurrent use.
//
// The problem: without a quarantine, code that crashes the compiler is compiled again after every
// restart, and in the background as often as it is deployed. But a block that calls such code must
// be applied if at all possible, because other nodes can apply it.
//
// Outline: a mark is a file. A mark exists for each running compilation and for each code that is
// barred after a failure, so the quarantine survives a crash of the process. OpenQuarantine finds
// the marks of compilations that were running when the process ended. If the compilation ran in the
// process itself, the code is barred. If the compilation ran in a child, the code is only
// suspected: the quarantine bars the code after maxInterrupted processes in succession have ended
// that way.
//
// Invariants: background jobs do not compile barred code. Jobs for a block also compile barred
// code, and success removes the mark. Marks of another build of the program are dropped, because
// that build may have a different compiler. mostMarks bounds memory and files; the oldest mark is
// removed first. If the folder cannot be used, marks are kept only in memory. A mark affects only
// whether a compilation is tried, never its result.
type Quarantine struct {
	dir, build string // an empty dir means memory only

	mu     sync.Mutex
	barred map[string]string // Job.Name -> text of the compiler's failure
	begun  map[string]int    // number of previous processes that ended while a child compiled the code
	order  []string          // names in barred and begun, oldest first
}

// mostMarks is the maximum number of marks.
const mostMarks = 4096

// maxInterrupted is the number of consecutive node processes that must end during the compilation
// of the same code in a child before the code is barred. The number is high, because a child can
// hardly harm its parent, while power cuts and kills may happen several times in succession. If
// code is barred without cause, view calls of the code fail until a block has called the code.
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

// mark is the content of a file. place is empty if the compiler failed on the code.
type mark struct {
	place Place
	count int // number of previous processes that ended during the compilation
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
	// A partial mark would be ignored. Renaming ensures that a mark under its final name is
	// complete.
	half := path + halfSuffix
	if os.WriteFile(half, m.bytes(), 0o600) != nil || os.Rename(half, path) != nil {
		_ = os.Remove(half) // otherwise a full disk would keep a partial file per contract
	}
}

func (q *Quarantine) remove(name string) {
	if q.dir != "" {
		_ = os.Remove(q.path(name))
	}
}

// Mark records that a compilation begins, unless the code is barred.
func (q *Quarantine) Mark(name string, place Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, barred := q.barred[name]; !barred { // a recorded failure is not overwritten
		q.write(name, mark{place: place, count: q.begun[name]})
	}
}

// Unmark records that a compilation ended without telling whether the compiler fails on the code.
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

// Bar records that a compilation failed, for the reason why.
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
