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

// knowsPages tells whether the system says which pages were written: Linux from 6.7 on, where /proc
// is.
var knowsPages = sync.OnceValue(func() bool { return bool(C.troupe_knows_pages()) })

// passing is how many calls of a module have instances of their own after one that was kept had to
// go unused.
const passing = 16

// kept are an engine's instances that wait for the next call of their module, the one that has
// waited longest first.
type kept struct {
	mu   sync.Mutex
	list []keptOne
}

type keptOne struct {
	m    *Module
	c    *C.troupe_kept_t
	used bool // more than once
}

// take returns an instance of a module, nil if there is none.
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

// put keeps an instance; used tells whether it was kept before. Where there are as many as there
// may be, the first one goes.
func (k *kept) put(m *Module, c *C.troupe_kept_t, used bool) {
	var out keptOne
	k.mu.Lock()
	if len(k.list) == mostKept {
		out = k.list[0]
		k.list = slices.Delete(k.list, 0, 1)
		if !out.used {
			out.m.pass.Store(passing)
		}
	}
	k.list = append(k.list, keptOne{m, c, used})
	k.mu.Unlock()
	if out.c != nil {
		C.troupe_kept_delete(out.c)
	}
}

// leave ends the instances of a module that nobody can call any more.
func (k *kept) leave(m *Module) {
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
