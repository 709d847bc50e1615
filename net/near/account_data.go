package near

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Reason is why a peer is banned.
type Reason byte

// The reasons of neard that this node uses.
const (
	NotBanned Reason = iota
	BadBlockHeader
	InvalidSignature
	InvalidEdge
	Abusive
	NotEnoughHeaders
)

var reasonNames = [...]string{"", "BadBlockHeader", "InvalidSignature", "InvalidEdge", "Abusive",
	"ProvidedNotEnoughHeaders"}

// String returns neard's name.
func (r Reason) String() string { return reasonNames[r] }

// accounts stores the account data of validators whose keys are in use.
type accounts struct {
	byID map[primitives.AccountID][]primitives.PublicKey
	keys map[primitives.PublicKey]bool
	data map[primitives.PublicKey]*wire.AccountData

	me            wire.PeerID
	key           primitives.SecretKey // key of this node's validator; zero: the node is no validator
	proxies       []wire.PeerAddr      // own addresses, or nodes that forward to this node
	connected     []wire.PeerAddr      // those of proxies to which this node is connected over T1; only they are published
	trackedShards []primitives.ShardID // shards that this node publishes as tracked; nil: none
	advertised    bool                 // this node has created data about itself
}

func newAccounts(me wire.PeerID) *accounts {
	return &accounts{me: me, keys: map[primitives.PublicKey]bool{}, data: map[primitives.PublicKey]*wire.AccountData{}}
}

// setKeys replaces the validator keys whose data this node accepts. It returns whether the keys
// have changed.
func (a *accounts) setKeys(byID map[primitives.AccountID][]primitives.PublicKey) bool {
	if maps.EqualFunc(a.byID, byID, slices.Equal[[]primitives.PublicKey]) {
		return false
	}
	a.byID, a.keys = byID, map[primitives.PublicKey]bool{}
	for _, keys := range byID {
		for _, k := range keys {
			a.keys[k] = true
		}
	}
	maps.DeleteFunc(a.data, func(k primitives.PublicKey, _ *wire.AccountData) bool { return !a.keys[k] })
	return true
}

func (a *accounts) isNew(d *wire.AccountData) bool {
	old := a.data[d.AccountKey]
	return a.keys[d.AccountKey] && (old == nil || d.IsNewer(old))
}

// add verifies and stores a peer's account data, and returns the new entries. A peer may have newer
// data under this node's own key, from a previous run of this node. In that case add creates new
// own data with the next version.
func (a *accounts) add(now time.Time, data []*wire.AccountData) (fresh []*wire.AccountData, ban Reason) {
	seen := map[primitives.PublicKey]bool{}
	var interesting []*wire.AccountData
	for _, d := range data {
		if len(d.Payload) > wire.MaxAccountData || seen[d.AccountKey] {
			return nil, Abusive
		}
		if a.isNew(d) {
			seen[d.AccountKey] = true
			interesting = append(interesting, d)
		}
	}
	for _, d := range interesting {
		if !d.Verify(d.AccountKey) {
			return fresh, InvalidSignature
		}
		if a.advertised && d.AccountKey == a.key.PublicKey() {
			d = a.signed(now, d.Version+1)
		}
		a.data[d.AccountKey] = d
		fresh = append(fresh, d)
	}
	return fresh, NotBanned
}

func (a *accounts) signed(now time.Time, version uint64) *wire.AccountData {
	d := &wire.AccountData{PeerID: a.me, Proxies: a.connected, Version: version, Timestamp: timestamp(now),
		Holds: a.trackedShards}
	if d.Sign(a.key) == nil {
		return d
	}
	if d.Holds = nil; d.Sign(a.key) != nil { // omit the shards, because the payload with the shards exceeds its limit
		d.Proxies = nil
		_ = d.Sign(a.key)
	}
	return d
}

// advertise creates new own data. advertise returns nil if the validator key is not in use.
func (a *accounts) advertise(now time.Time) *wire.AccountData {
	if a.key.IsZero() || !a.keys[a.key.PublicKey()] {
		return nil
	}
	version := uint64(1)
	if old := a.data[a.key.PublicKey()]; old != nil {
		version = old.Version + 1
	}
	d := a.signed(now, version)
	a.data[d.AccountKey], a.advertised = d, true
	return d
}

// all returns the data, sorted by key.
func (a *accounts) all() []*wire.AccountData {
	out := make([]*wire.AccountData, 0, len(a.data))
	for _, k := range slices.Sorted(maps.Keys(a.data)) {
		out = append(out, a.data[k])
	}
	return out
}

// of returns the data of an account's keys.
func (a *accounts) of(id primitives.AccountID) []*wire.AccountData {
	var out []*wire.AccountData
	for _, k := range a.byID[id] {
		if d := a.data[k]; d != nil {
			out = append(out, d)
		}
	}
	return out
}

func timestamp(t time.Time) wire.Timestamp {
	return wire.Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())}
}

// announcements maps accounts to the nodes that their validators announced for an epoch.
type announcements struct {
	of    map[primitives.AccountID]*wire.Announcement
	order []primitives.AccountID // keys of the map of, oldest first
}

// maxAnnouncements is the maximum number of accounts with stored announcements
// (announce_accounts/mod.rs).
const maxAnnouncements = 10_000

// add stores verified announcements. add returns the announcements whose epoch differs from the
// epoch of the account's stored announcement.
func (a *announcements) add(list []*wire.Announcement) (fresh []*wire.Announcement) {
	if a.of == nil {
		a.of = map[primitives.AccountID]*wire.Announcement{}
	}
	for _, n := range list {
		old := a.of[n.AccountID]
		if old != nil && old.EpochID == n.EpochID {
			continue
		}
		if old == nil {
			if len(a.of) >= maxAnnouncements {
				delete(a.of, a.order[0])
				a.order = a.order[1:]
			}
			a.order = append(a.order, n.AccountID)
		}
		a.of[n.AccountID] = n
		fresh = append(fresh, n)
	}
	return fresh
}

func (a *announcements) all() []*wire.Announcement {
	var out []*wire.Announcement
	for _, id := range a.order {
		out = append(out, a.of[id])
	}
	return out
}
