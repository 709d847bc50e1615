package validator

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/storage"
)

// fullDisk is a disk status and a journal, both of which the test can fill.
type fullDisk struct {
	mu         sync.Mutex
	full, rows bool
	saved      chan []byte
}

func (d *fullDisk) Full() (storage.Full, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return storage.Full{}, d.full
}

func (d *fullDisk) set(full, rows bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.rows = full, rows
}

func (d *fullDisk) Write(row []byte) error {
	d.mu.Lock()
	rows := d.rows
	d.mu.Unlock()
	d.saved <- row
	if !rows {
		return &os.PathError{Op: "write", Path: "signed.0", Err: syscall.ENOSPC}
	}
	return nil
}

// sendTo is a messageSender.
type sendTo chan []consensus.Send

func (c sendTo) Send(l []consensus.Send) { c <- l }

// TestNoMessageIsSentOnFullDisk: while the disk is full, no message is sent and signatures are
// still recorded or kept. Once there is room, sending resumes.
func TestNoMessageIsSentOnFullDisk(t *testing.T) {
	d := &fullDisk{rows: true, saved: make(chan []byte, 1000)}
	sent := make(chan []consensus.Send, 10)
	w := newOutbox(d, d, sendTo(sent), func(err error) { t.Error(err) })
	say := func(row byte) { w.put([]byte{row}, []consensus.Send{{}}) }
	say(1)
	<-sent
	d.set(true, true)
	say(2)
	for slices.Compare(<-d.saved, []byte{2}) != 0 {
	}
	d.set(true, false)
	say(3)
	for range 2 { // the outbox writes row 3 again and again
		for slices.Compare(<-d.saved, []byte{3}) != 0 {
		}
	}
	d.set(false, true)
	say(4)
	<-sent // the messages of the fourth put alone
	w.close()
	if len(sent) > 0 {
		t.Errorf("%d lists more were sent", len(sent))
	}
}
