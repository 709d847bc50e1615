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

// The reasons that neard has, and one uses.
const (
	NotBanned Reason = iota
	BadBlockHeader
	InvalidSignature
	InvalidEdge
	Abusive
	NotEnoughHeaders
)

var reasonNames = [...]string{"", "BadBlockHeader", "InvalidSignature", "InvalidEdge", "Abusive", "ProvidedNotEnoughHeaders"}

// String returns neard's name.
func (r Reason) String() string { return reasonNames[r] }

// accounts is the data of the validators whose keys count now.
type accounts struct {
	byID map[primitives.AccountID][]primitives.PublicKey
	keys map[primitives.PublicKey]bool
	data map[primitives.PublicKey]*wire.AccountData

	me      wire.PeerID
	key     primitives.SecretKey // of this node's validator; zero: none
	proxies []wire.PeerAddr
	holds   []primitives.ShardID // of this node, if it says so
	told    bool                 // data of our own was made
}

func newAccounts(me wire.PeerID) *accounts {
	return &accounts{me: me, keys: map[primitives.PublicKey]bool{}, data: map[primitives.PublicKey]*wire.AccountData{}}
}

// setKeys tells whose data counts from now on, and whether that is a change.
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

// add takes data that a peer has sent, and returns what is new. Newer data of our own key, of a
// node that ran before us, is replaced by ours with the next version.
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
		if a.told && d.AccountKey == a.key.PublicKey() {
			d = a.signed(now, d.Version+1)
		}
		a.data[d.AccountKey] = d
		fresh = append(fresh, d)
	}
	return fresh, NotBanned
}

func (a *accounts) signed(now time.Time, version uint64) *wire.AccountData {
	d := &wire.AccountData{PeerID: a.me, Proxies: a.proxies, Version: version, Timestamp: timestamp(now), Holds: a.holds}
	if d.Sign(a.key) == nil {
		return d
	}
	if d.Holds = nil; d.Sign(a.key) != nil { // too many to be told: then none
		d.Proxies = nil
		_ = d.Sign(a.key)
	}
	return d
}

// advertise makes data of our own anew, or returns nil if our key does not count.
func (a *accounts) advertise(now time.Time) *wire.AccountData {
	if a.key.IsZero() || !a.keys[a.key.PublicKey()] {
		return nil
	}
	version := uint64(1)
	if old := a.data[a.key.PublicKey()]; old != nil {
		version = old.Version + 1
	}
	d := a.signed(now, version)
	a.data[d.AccountKey], a.told = d, true
	return d
}

// all returns the data in the order of keys.
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

// announcements are which node an account has, by its word of an epoch.
type announcements struct {
	of    map[primitives.AccountID]*wire.Announcement
	order []primitives.AccountID // the oldest first
}

// maxAnnouncements is how many accounts are remembered (announce_accounts/mod.rs).
const maxAnnouncements = 10_000

// add takes announcements that were judged, and returns those of another epoch than the one that is
// known.
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
