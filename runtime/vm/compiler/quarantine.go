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

// Where a compilation is that a mark stands for.
type Place string

// The places. A process that ended while it compiled itself most likely did so because of that; one
// that had a child do it most likely did not.
const (
	InProcess Place = "here"
	InChild   Place = "child"
)

// Quarantine remembers the code that the compiler failed on, so that it is not tried again but for
// a block. There is a file for each compilation under way, and for each that failed; so it outlives
// the process. Marks that another build made are forgotten: its compiler may be mended.
type Quarantine struct {
	dir, build string // dir empty: nothing is written

	mu     sync.Mutex
	barred map[string]string // name -> why
	begun  map[string]int    // processes that ended while a child of theirs compiled it
	order  []string          // of barred, and begun, oldest first
}

// mostMarks bounds what is remembered; the oldest goes.
const mostMarks = 4096

// endings is how many processes must end while their child compiles the same code, one after the
// other, before it is suspected: a child does little to its parent, and power cuts and kills come
// in rows. What is suspected can't be read until a block has called it.
const endings = 5

// OpenQuarantine reads what is in dir. A folder that can't be read or written is done without:
// nothing is decided by it but whether to try again.
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
		case m.place == InProcess || m.count+1 >= endings:
			q.Bar(f.Name(), "the process ended while it was compiled")
		default:
			q.remember(f.Name())
			q.begun[f.Name()] = m.count + 1
		}
	}
	return q
}

// mark is a file. place empty: the compiler failed.
type mark struct {
	place Place
	count int // earlier processes that ended in the middle of it
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
	// Half a mark is as none; a mark that is renamed into place is never half.
	half := path + halfSuffix
	if os.WriteFile(half, m.bytes(), 0o600) != nil || os.Rename(half, path) != nil {
		_ = os.Remove(half) // else a full disk keeps one for each contract
	}
}

func (q *Quarantine) remove(name string) {
	if q.dir != "" {
		_ = os.Remove(q.path(name))
	}
}

// Mark says that a compilation begins.
func (q *Quarantine) Mark(name string, place Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, barred := q.barred[name]; !barred { // that says more
		q.write(name, mark{place: place, count: q.begun[name]})
	}
}

// Unmark says that it ended, and that nothing was learnt of it.
func (q *Quarantine) Unmark(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, barred := q.barred[name]; !barred {
		q.remove(name)
	}
}

// Clear says that it succeeded.
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

// Bar says that it failed.
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

// Barred tells whether the compiler failed on it, and why.
func (q *Quarantine) Barred(name string) (why string, barred bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	why, barred = q.barred[name]
	return why, barred
}

// Len is how many are barred.
func (q *Quarantine) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.barred)
}
