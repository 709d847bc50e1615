//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

/*
#include "shim.h"
*/
import "C"

import (
	"slices"
	"sync"
)

// Instance reuse.
//
// The problem: making a new instance takes ten times as long as resetting an instance, which
// matters for short repeated calls of one contract.
//
// Invariants:
//   - A call on a reset instance has exactly the result of a call on a new instance: equal memory,
//     globals and tables. Only modules that package prep marks can be reset (GlobalAgain): in them,
//     everything that a call can change can be read and restored from outside.
//   - Only an instance whose call ended normally is kept. After a trap or a stop, the instance is
//     deleted.
//   - At most mostKept instances per engine are kept. Closing a module deletes its instances.
//
// Outline: after a call with Call.Again, the instance is reset and kept (keepable and set_back in
// shim.c). The reset restores the initial values of globals, and those pages of memory that the
// system reports as written. The next call of the module takes the instance from kept. If a kept
// instance is evicted without having been reused, the next skipAfterUnused calls of its module keep
// no instance. So rarely called modules do not displace instances of frequently called modules.
//
// Rejected: comparing or copying the whole memory. Such a reset takes time in proportion to the
// size of the memory, not to what the call wrote. So on systems that do not report written pages,
// instances are not reused.

// knowsPages returns whether the system reports which pages were written: Linux from 6.7 on, if
// /proc is mounted.
var knowsPages = sync.OnceValue(func() bool { return bool(C.troupe_knows_pages()) })

// skipAfterUnused is the number of calls of a module that keep no instance after a kept instance of
// that module was evicted without having been reused.
const skipAfterUnused = 16

// kept holds the instances of an engine that wait for the next call of their module, the oldest
// instance first.
type kept struct {
	mu   sync.Mutex
	list []keptOne
}

type keptOne struct {
	m    *Module
	c    *C.troupe_kept_t
	used bool // the instance was reused at least once
}

// take removes and returns an instance of a module; nil if there is none.
func (k *kept) take(m *Module) *C.troupe_kept_t {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(k.list) - 1; i >= 0; i-- {
		if k.list[i].m == m {
			c := k.list[i].c
			k.list = slices.Delete(k.list, i, i+1)
			return c
		}
	}
	return nil
}

// put adds an instance of a module. used is whether the instance was reused before. If the list is full,
// put deletes the oldest instance.
func (k *kept) put(m *Module, c *C.troupe_kept_t, used bool) {
	var out keptOne
	k.mu.Lock()
	if len(k.list) == mostKept {
		out = k.list[0]
		k.list = slices.Delete(k.list, 0, 1)
		if !out.used {
			out.m.pass.Store(skipAfterUnused)
		}
	}
	k.list = append(k.list, keptOne{m, c, used})
	k.mu.Unlock()
	if out.c != nil {
		C.troupe_kept_delete(out.c)
	}
}

// remove deletes the instances of a closed module.
func (k *kept) remove(m *Module) {
	var gone []*C.troupe_kept_t
	k.mu.Lock()
	k.list = slices.DeleteFunc(k.list, func(o keptOne) bool {
		if o.m == m {
			gone = append(gone, o.c)
		}
		return o.m == m
	})
	k.mu.Unlock()
	for _, c := range gone {
		C.troupe_kept_delete(c)
	}
}
