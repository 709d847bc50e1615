package daemon

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// oldestPeer is the oldest protocol version that neard of the newest one talks to.
const oldestPeer = 83

// knownPeers names who was connected, for the next run.
const knownPeers = "known_peers"

// networkOptions says what the network's actor works with; l listens, or did before the actor began
// anew.
func (h *Daemon) networkOptions(l net.Listener) (*network.Options, error) {
	hm := h.home
	c := &hm.Config.Network
	if hm.NodeKey == nil {
		return nil, fmt.Errorf("%s: a node that connects to others needs a key of its own; `troupe init` makes one", hm.Paths.NodeKey)
	}
	boot, err := peers("network.boot_nodes", c.BootNodes)
	if err != nil {
		return nil, err
	}
	over, err := h.overLibp2p(l.Addr())
	if err != nil {
		return nil, err
	}
	white, err := peers("network.whitelist_nodes", c.Whitelist)
	if err != nil {
		return nil, err
	}
	nc := near.Config{
		Key: hm.NodeKey.SecretKey, Genesis: wire.GenesisID{ChainID: hm.Genesis.ChainID, Hash: h.Engine.Genesis().Hash},
		Version: uint32(parameters.Newest(hm.Config.Numbering)), Oldest: oldestPeer, Boot: boot, Whitelist: white, Blacklisted: blacklist(c.Blacklist),
		Archival: hm.Config.Archive, MaxPeers: int(c.MaxPeers), IdealLow: int(c.IdealLow), IdealHigh: int(c.IdealHigh), MinOutbound: int(c.MinOutbound),
		SafeSet: int(c.SafeSet), NoInboundT1: !c.InboundT1, NoOutboundT1: !c.OutboundT1, T1Period: c.T1Period, Draw: rand.IntN, Sparing: c.Pace == config.Eager,
	}
	h.front = &network.Status{MaxPeers: uint32(c.MaxPeers), Awaits: len(boot) > 0, Log: h.log, FirstMet: h.endSandbox}
	o := &network.Options{
		Peer: hm.NodeKey.PublicKey(), Status: h.front, Random: rand.IntN, Remember: h.rememberPeers, Eager: c.Pace == config.Eager, Verify: h.signed.Verify,
		Sync:   blocksync.Options{Threshold: primitives.Height(c.SyncThreshold), MaxRequests: int(c.SyncRequests), HeadersWait: c.HeadersWait.Milliseconds(), ProofWait: c.ProofWait.Milliseconds()},
		States: statesync.Options{Wait: c.StateWait.Milliseconds(), Pause: c.StatePause.Milliseconds()},
		Route:  network.Route{Off: c.NoRouting, Horizon: primitives.Height(c.RouteHorizon)},
		Listen: func(deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) (*tcp.Server, error) {
			on, addr, again := l, l.Addr().String(), h.listened
			h.listened = true
			now := nc
			now.Known = h.recallPeers()
			if c.Transport == config.OverLibp2p {
				_ = l.Close()
				on = nil
			} else if again { // that one is closed
				var err error
				if on, err = tcp.Bind(addr); err != nil {
					return nil, err
				}
			}
			if over == nil {
				t := tcp.New(on, now, deliver, judge)
				t.Tap = h.tap
				return t, nil
			}
			way, err := h.listenLibp2p(over)
			if err != nil {
				if on != nil {
					_ = on.Close()
				}
				return nil, err
			}
			t := tcp.NewOver(on, way, now, deliver, judge)
			t.Tap = h.tap
			return t, nil
		},
	}
	if k := hm.ValidatorKey; k != nil {
		o.Account, o.Key = k.AccountID, k.SecretKey
	}
	return o, nil
}

// signedFile keeps what the validator has signed, beside what it has stored: they belong together.
const signedFile = "signed"

// followsFile is as that file, of a node without a validator: nothing is ever signed there.
const followsFile = "follows"

// togetherOptions says what a validator works with that makes blocks with others; nil: it is alone,
// or none.
func (h *Daemon) togetherOptions() (*validator.Options, error) {
	key := h.home.ValidatorKey
	if key == nil {
		return nil, nil
	}
	var others bool
	head := h.Engine.Head().Hash
	err := h.Engine.Epochs(func(m *epoch.Manager) error {
		for _, of := range []func(primitives.Hash) (primitives.EpochID, error){m.EpochIDFromPrev, m.NextEpochIDFromPrev} {
			id, err := of(head)
			if err != nil {
				return err
			}
			info, err := m.EpochInfo(id)
			if err != nil {
				return err
			}
			for i := range info.Validators {
				others = others || info.Validators[i].AccountID != key.AccountID
			}
		}
		return nil
	})
	if err != nil || !others && !hasSigned(h.home) { // what was signed together is known to that actor alone
		return nil, err
	}
	h.together, h.key = true, h.validatorKey
	return &validator.Options{Account: key.AccountID, Key: key.SecretKey, Journal: filepath.Join(h.home.Paths.Data, signedFile), Verify: h.signed.Verify, Vouched: h.signed.Add,
		Eager: h.home.Config.Network.Pace == config.Eager}, nil
}

// shadowOptions are those of a node whose shards come in and go, and which makes nothing of them.
func (h *Daemon) shadowOptions() *validator.Options {
	return &validator.Options{Journal: filepath.Join(h.home.Paths.Data, followsFile), Verify: h.signed.Verify}
}

// hasSigned tells whether the validator of a folder has signed anything together with others.
func hasSigned(hm *home.Home) bool {
	for _, name := range []string{".0", ".1"} {
		if _, err := os.Stat(filepath.Join(hm.Paths.Data, signedFile+name)); err == nil {
			return true
		}
	}
	return false
}

// checkAlone refuses to make blocks alone where this validator has signed together with others: it
// might contradict itself.
func checkAlone(hm *home.Home) error {
	if hm.ValidatorKey == nil || !hasSigned(hm) {
		return nil
	}
	return fmt.Errorf("%s has signed blocks and votes of this chain together with others (%s.*), and might contradict them alone; let it listen to the network again "+
		"(network.addr), or take its validator_key.json away to read what is stored", hm.ValidatorKey.AccountID, filepath.Join(hm.Paths.Data, signedFile))
}

// peers reads a list of peers, whose hosts may be names.
func peers(key, list string) (out []wire.PeerInfo, err error) {
	all, err := config.Peers(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	for _, p := range all {
		addr, err := net.ResolveTCPAddr("tcp", p.Addr)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", key, p.Addr, err)
		}
		at := addr.AddrPort()
		out = append(out, wire.PeerInfo{ID: p.Key, Addr: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), AccountID: p.AccountID})
	}
	return out, nil
}

// blacklist tells whether an address is one of a list, with any port or with this one.
func blacklist(list []string) func(netip.AddrPort) bool {
	all, one := map[netip.Addr]bool{}, map[netip.AddrPort]bool{}
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			all[a.Unmap()] = true
		} else if a, err := netip.ParseAddrPort(s); err == nil {
			one[netip.AddrPortFrom(a.Addr().Unmap(), a.Port())] = true
		}
	}
	return func(a netip.AddrPort) bool {
		ip := a.Addr().Unmap()
		return all[ip] || one[netip.AddrPortFrom(ip, a.Port())]
	}
}

// rememberPeers keeps who was connected.
func (h *Daemon) rememberPeers(list []wire.PeerInfo) {
	raw := storage.Raw(borsh.AppendUint32(nil, uint32(len(list))))
	for i := range list {
		raw = list[i].AppendBorsh(raw)
	}
	var b storage.Batch
	storage.Misc.Put(&b, knownPeers, &raw)
	if err := h.store.Write(&b); err != nil {
		h.log.WithError(err).Warn("peers not remembered")
	}
}

// recallPeers returns them; none, if what is kept can't be read.
func (h *Daemon) recallPeers() (out []wire.PeerInfo) {
	raw, err := storage.Misc.Get(h.store.Reader(), knownPeers)
	if err != nil {
		return nil
	}
	r := borsh.NewReader(raw)
	for range r.Uint32() {
		var p wire.PeerInfo
		if p.DecodeBorsh(r); r.Err() != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// endSandbox takes back what nobody else would go along with, when the first peer is there.
func (h *Daemon) endSandbox() { h.checker.AllowUnsigned(nil, false) }

// shared tells why this node's chain is not its own to change; empty: it is.
func (h *Instance) shared() string {
	switch f := h.front; {
	case f == nil:
		return ""
	case h.together:
		return "this node makes blocks together with other validators, who would not go along"
	case f.Awaits:
		return "this node belongs to a network (network.boot_nodes), whose other nodes would not go along"
	case f.Met():
		return "other nodes have connected to this one, and would not go along"
	}
	return ""
}

// alone is may, for what others would not go along with.
func (s steerer) alone() error {
	if reason := s.shared(); reason != "" {
		return &view.SandboxError{Reason: reason}
	}
	return s.may()
}

// networkAddr says where other nodes may connect, empty: nowhere.
func networkAddr(c *config.Network) string {
	switch {
	case !c.On():
		return ""
	case c.Addr == "":
		return "127.0.0.1:0"
	}
	return c.Addr
}

// NetworkAddr is where other nodes may connect; nil: nowhere.
func (h *Daemon) NetworkAddr() net.Addr { return h.network }

// peersClock is the clock that blocks and headers of peers must not be too far ahead of; nil: there
// are no peers.
func peersClock(peers bool) func() uint64 {
	if !peers {
		return nil
	}
	return func() uint64 { return uint64(time.Now().UnixNano()) }
}
