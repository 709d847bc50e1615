package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// live is the configuration of which some keys may change while the node runs. Those of the RPC are
// the server's.
type live struct {
	mu     sync.Mutex                 // of a reload
	known  map[string]json.RawMessage // what holds, by key; nil: as it was read at the start; under mu
	config atomic.Pointer[config.Config]
	key    atomic.Pointer[validatorKey] // nil: as at the start; stored under mu
}

// validatorKey is what validator_key.json has; nil: there is none.
type validatorKey struct{ *primitives.KeyFile }

func (l *live) minAge() time.Duration { return l.config.Load().GCMinAge }
func (l *live) blocksLimit() uint64   { return l.config.Load().GCBlocksLimit }

// liveKeys are the keys that a node takes up while it runs.
var liveKeys = func() map[string]bool {
	keys := map[string]bool{"gc_blocks_limit": true, "troupe.gc_min_age": true, "troupe.rpc.api_keys": true}
	for i := range limits.Table {
		if r := &limits.Table[i]; r.Address != nil { // what one client's address may have
			keys["troupe.rpc."+r.Key] = true
		}
	}
	return keys
}()

// LiveKeys returns the keys of config.json that a node takes up while it runs.
func LiveKeys() []string { return slices.Sorted(maps.Keys(liveKeys)) }

// Reloaded is what a reading of config.json while the node runs came to.
type Reloaded struct {
	Taken   []string // keys that have changed and hold now
	Restart []string // that have changed and hold when the node is started again
}

// Reload reads config.json again and takes up what may change while the node runs. On an error
// nothing changes: a file that the node could not start with is said to be one.
func (h *Daemon) Reload() (*Reloaded, error) {
	l := &h.live
	l.mu.Lock()
	defer l.mu.Unlock()
	next, warnings, err := home.LoadConfig(h.home.Paths.Dir)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		h.log.Warn(w.String())
	}
	old := l.config.Load()
	r := new(Reloaded)
	if l.known == nil {
		l.known = flat(old.Document)
	}
	was, now := maps.Clone(l.known), flat(next.Document)
	for _, key := range slices.Sorted(maps.Keys(merged(was, now))) {
		if bytes.Equal(was[key], now[key]) {
			continue
		}
		if !liveKeys[key] || strings.HasPrefix(key, "troupe.rpc.") && (h.server == nil || next.RPC == nil) {
			r.Restart = append(r.Restart, key)
			continue
		}
		if was[key] = now[key]; now[key] == nil {
			delete(was, key)
		}
		r.Taken = append(r.Taken, key)
	}
	rekey, err := h.otherKey(r)
	if err != nil {
		return nil, err
	}
	if len(r.Taken) == 0 {
		rekey()
		return r, nil
	}
	taken := *old
	taken.GCMinAge, taken.GCBlocksLimit = next.GCMinAge, next.GCBlocksLimit
	if h.server != nil && next.RPC != nil {
		if err := h.server.Reload(rpcLimits(next.RPC), next.RPC.APIKeys); err != nil {
			return nil, err
		}
		both := *old.RPC
		both.Limits, both.Named, both.APIKeys = next.RPC.Limits, next.RPC.Named, next.RPC.APIKeys
		taken.RPC = &both
	}
	rekey()
	l.config.Store(&taken)
	l.known = was
	return r, nil
}

// validatorKey is the key of this node's validator as it was read last; nil: there is none.
func (h *Daemon) validatorKey() *primitives.KeyFile {
	if k := h.live.key.Load(); k != nil {
		return k.KeyFile
	}
	return h.home.ValidatorKey
}

// otherKey reads validator_key.json again, and returns what takes it up. Another key of this node's
// validator signs from here on. Where the account has none any more, as when it moves to another
// machine, nothing is signed from here on; what account comes in its place is for the next start:
// what a validator has signed is kept with its folder.
func (h *Daemon) otherKey(r *Reloaded) (take func(), err error) {
	nothing := func() {}
	own, was, path := h.home.ValidatorKey, h.validatorKey(), h.home.Paths.ValidatorKey
	if path == "" {
		return nothing, nil
	}
	key, err := home.ReadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	same := key == nil && was == nil || key != nil && was != nil && *key == *was
	switch mine := own != nil && key != nil && key.AccountID == own.AccountID; {
	case !h.together:
		if !same {
			r.Restart = append(r.Restart, name)
		}
		return nothing, nil
	case key != nil && !mine:
		r.Restart = append(r.Restart, name)
	case !same:
		r.Taken = append(r.Taken, name)
	}
	if same {
		return nothing, nil
	}
	return func() {
		var secret primitives.SecretKey
		if key != nil && key.AccountID == own.AccountID {
			secret = key.SecretKey
		}
		h.Node.Rekey(secret)
		h.live.key.Store(&validatorKey{key})
		switch {
		case !secret.IsZero():
			h.log.Infof("%s signs with %s from here on", own.AccountID, key.PublicKey())
		case key == nil:
			h.log.Warnf("there is no %s any more: %s signs nothing from here on", name, own.AccountID)
		default:
			h.log.Warnf("%s is of %s: %s signs nothing from here on", name, key.AccountID, own.AccountID)
			key = nil // until the next start
		}
		if h.back != nil {
			h.back.Rekeyed(key)
		}
	}, nil
}

// GoOn makes o, with which the node was started, the options of the one that is started in its
// place: what Reload has taken up holds there too.
func (h *Daemon) GoOn(o *Options) {
	l := &h.live
	l.mu.Lock()
	defer l.mu.Unlock()
	hm := *o.Home
	hm.Config = l.config.Load()
	if k := l.key.Load(); k != nil {
		hm.ValidatorKey = k.KeyFile
	}
	o.Home, o.known = &hm, l.known
}

// flat returns the values of a document by their dotted paths, as JSON. Lists and durations are
// values.
func flat(d *config.Document) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	var walk func(prefix string, d *config.Document)
	walk = func(prefix string, d *config.Document) {
		for _, k := range d.Keys() {
			v, _ := d.Get(k)
			path := prefix + k
			if sub, ok := v.(*config.Document); ok && !liveKeys[path] {
				walk(path+".", sub)
				continue
			}
			out[path] = raw(v)
		}
	}
	if d != nil {
		walk("", d)
	}
	return out
}

func raw(v any) json.RawMessage {
	if d, ok := v.(*config.Document); ok {
		return d.Format()
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("daemon: encode a value of config.json: %v", err)) // it was read as JSON
	}
	return b
}

func merged(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
