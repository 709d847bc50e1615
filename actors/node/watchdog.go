package node

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/engine/badchunk"
)

// Limits of the watchdog. The longest legitimate message applies a chunk: a second of gas, plus the
// compilation of the called contracts.
const (
	DefaultStandstill = 10 * time.Second
	stackFiles        = 4           // maximum number of dump files in the folder
	stackBytes        = 4 << 20     // maximum size of a dump in bytes
	stackPause        = time.Minute // minimum time between two dumps
)

// watch reports stalled actors until the node stops: in the log, with the stacks of all goroutines
// in a file.
func (n *Node) watch() {
	tick := time.NewTicker(n.o.Standstill / 4)
	defer tick.Stop()
	var last time.Time // time of the last dump
	for {
		select {
		case <-n.ended:
			return
		case <-tick.C:
		}
		stalls := n.spawner.meter.Stalls(n.o.Standstill)
		if len(stalls) == 0 {
			continue
		}
		where := ""
		if n.o.Failed != "" && (last.IsZero() || time.Since(last) > stackPause) {
			last = time.Now()
			var err error
			if where, err = dumpStacks(n.o.Failed, stalls, last); err != nil {
				n.o.Log.WithError(err).Warn("the file with the stacks of all goroutines could not be written")
			}
		}
		for i := range stalls {
			n.logStall(&stalls[i], where)
		}
	}
}

func (n *Node) logStall(s *system.Stall, where string) {
	e := n.o.Log.WithFields(logrus.Fields{"actor": s.Kind, "mailbox": s.Mailbox})
	if s.Shard != "" {
		e = e.WithField("shard", s.Shard)
	}
	if where != "" {
		e = e.WithField("stacks", where)
	}
	e.Warnf("an actor is stuck: %v on one message, the next has waited %v", s.Busy.Round(time.Millisecond),
		s.Oldest.Round(time.Millisecond))
}

// dumpStacks writes the stacks of all goroutines to a new file in dir, returns the path of that
// file, and removes the oldest dumps. It never removes the new file, even if the clock was set
// back. On a full disk, dumpStacks leaves no partial file.
func dumpStacks(dir string, stalls []system.Stall, now time.Time) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var text []byte
	for i := range stalls {
		text = fmt.Appendf(text, "%+v\n", stalls[i])
	}
	stacks := make([]byte, stackBytes)
	text = append(append(text, '\n'), stacks[:runtime.Stack(stacks, true)]...)
	path = filepath.Join(dir, "stacks-"+now.UTC().Format("20060102T150405.000")+".txt")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		_ = os.Remove(path)
		return "", err
	}
	badchunk.Prune(dir, "stacks-*.txt", path, stackFiles)
	return path, nil
}
