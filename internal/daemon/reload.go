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

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// live is the part of the configuration that Reload may change. The server contains the RPC's part.
type live struct {
	mu     sync.Mutex                 // held while Reload runs
	known  map[string]json.RawMessage // effective values by key; nil: the values at the start; guarded by mu
	config atomic.Pointer[config.Config]
	key    atomic.Pointer[validatorKey] // current key; nil: the key at the start; written under mu
	// signFrom is Options.SignFrom; 0 after a change of the key, which may have signed elsewhere since.
	// Guarded by mu.
	signFrom primitives.Height
}

// validatorKey is the contents of validator_key.json. Its KeyFile is nil if the file is missing.
type validatorKey struct{ *primitives.KeyFile }

func (l *live) minAge() time.Duration { return l.config.Load().GCMinAge }
func (l *live) blocksLimit() uint64   { return l.config.Load().GCBlocksLimit }

// liveKeys are the keys of config.json that a running node applies.
var liveKeys = func() map[string]bool {
	keys := map[string]bool{"gc_blocks_limit": true, "troupe.gc_min_age": true, "troupe.rpc.api_keys": true, keyWaitKey: true}
	for i := range limits.Table {
		if r := &limits.Table[i]; r.Address != nil { // the limit is per client address
			keys["troupe.rpc."+r.Key] = true
		}
	}
	return keys
}()

// keyWaitKey is the key of config.json with the wait of a new validator key.
const keyWaitKey = "troupe.validator.new_key_wait_blocks"

// LiveKeys returns the keys of config.json that a running node applies, sorted.
func LiveKeys() []string { return slices.Sorted(maps.Keys(liveKeys)) }

// Reloaded is the result of Reload.
type Reloaded struct {
	Taken   []string // changed keys that are applied
	Restart []string // changed keys that need a restart
}

// Reload reads config.json and validator_key.json again, and applies the changes that are possible
// at run time. On an error, Reload changes nothing. A start with these files would fail too.
func (h *Daemon) Reload() (r *Reloaded, err error) {
	defer func() {
		if h.configWrong.Store(err != nil); err == nil {
			h.configRead()
		}
	}()
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
	r = new(Reloaded)
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
	rekey, err := h.reloadKey(r, next)
	if err != nil {
		return nil, err
	}
	if len(r.Taken) == 0 {
		rekey()
		return r, nil
	}
	taken := *old
	taken.GCMinAge, taken.GCBlocksLimit, taken.NewKeyWait = next.GCMinAge, next.GCBlocksLimit, next.NewKeyWait
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

// validatorKey returns the validator key as read last; nil: the file is missing.
func (h *Daemon) validatorKey() *primitives.KeyFile {
	if k := h.live.key.Load(); k != nil {
		return k.KeyFile
	}
	return h.home.ValidatorKey
}

// reloadKey reads validator_key.json again and returns a function, take, that applies the new key.
// If the key belongs to the same account, the node signs with it after take. In two cases the node
// signs nothing after take: the file is missing, as after a move to another machine, or the file
// names a different account. A change of the account needs a restart, because the signing journal
// belongs to the folder. A key that is new to the folder waits as next says, also if only that has
// changed.
func (h *Daemon) reloadKey(r *Reloaded, next *config.Config) (take func(), err error) {
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
	case !h.withOthers:
		if !same {
			r.Restart = append(r.Restart, name)
		}
		return nothing, nil
	case key != nil && !mine:
		r.Restart = append(r.Restart, name)
	case !same:
		r.Taken = append(r.Taken, name)
	}
	wait := consensus.KeyWait{Blocks: h.home.KeyWait(next)}
	if same {
		wait.From = h.live.signFrom
	}
	if same && (key == nil || key.AccountID != own.AccountID || !slices.Contains(r.Taken, keyWaitKey)) {
		return nothing, nil
	}
	return func() {
		var secret primitives.SecretKey
		if key != nil && key.AccountID == own.AccountID {
			secret = key.SecretKey
		}
		h.Node.Rekey(secret, wait)
		if same {
			return
		}
		h.live.signFrom = 0
		h.live.key.Store(&validatorKey{key})
		switch {
		case !secret.IsZero():
			h.log.Infof("%s now has the key %s", own.AccountID, key.PublicKey())
		case key == nil:
			h.log.Warnf("%s was removed: %s signs nothing any more", name, own.AccountID)
		default:
			h.log.Warnf("%s has the key of %s: %s signs nothing any more; restart the node to sign with the new key", name,
				key.AccountID, own.AccountID)
			key = nil // the node signs nothing until its next start
		}
		if h.back != nil {
			h.back.Rekeyed(key)
		}
	}, nil
}

// UpdateOptions updates o, the options of the last start, for a restart. Changes that Reload
// applied remain in force.
func (h *Daemon) UpdateOptions(o *Options) {
	l := &h.live
	l.mu.Lock()
	defer l.mu.Unlock()
	hm := *o.Home
	hm.Config = l.config.Load()
	if k := l.key.Load(); k != nil {
		hm.ValidatorKey = k.KeyFile
	}
	o.Home, o.known, o.SignFrom = &hm, l.known, l.signFrom
}

// flat returns the values of a document as JSON, by dotted path. Lists and durations are values.
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
		// Cannot happen: the value was parsed from JSON.
		panic(fmt.Sprintf("daemon: encode a value of config.json: %v", err))
	}
	return b
}

func merged(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
