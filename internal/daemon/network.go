package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/libp2p"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/stun"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// OldestPeer is the oldest protocol version that a neard with the newest version accepts from
// peers.
const OldestPeer = 83

// knownPeers is the key of the store row with the peers of the previous run.
const knownPeers = "known_peers"

// networkOptions returns the options of the network actor. l is the actor's first listener. After a
// restart of the actor, l is closed, and the actor uses only the address of l.
func (h *Daemon) networkOptions(l net.Listener) (*network.Options, error) {
	hm := h.home
	c := &hm.Config.Network
	if hm.NodeKey == nil {
		return nil, fmt.Errorf("%s is missing: a node in a network needs a node key; create one with `troupe init`", hm.Paths.NodeKey)
	}
	boot, err := Peers("network.boot_nodes", c.BootNodes)
	if err != nil {
		return nil, err
	}
	over, err := h.libp2pOptions(l.Addr())
	if err != nil {
		return nil, err
	}
	white, err := Peers("network.whitelist_nodes", c.Whitelist)
	if err != nil {
		return nil, err
	}
	nc := near.Config{
		Key: hm.NodeKey.SecretKey, Genesis: wire.GenesisID{ChainID: hm.Genesis.ChainID, Hash: h.Engine.Genesis().Hash},
		Version: uint32(parameters.Newest(hm.Numbering)), Oldest: OldestPeer, Boot: boot, Whitelist: white, Blacklisted: blacklist(c.Blacklist),
		Archival: hm.Config.Archive, MaxPeers: int(c.MaxPeers), IdealLow: int(c.IdealLow), IdealHigh: int(c.IdealHigh),
		MinOutbound: int(c.MinOutbound),
		SafeSet:     int(c.SafeSet), NoInboundT1: !c.InboundT1, NoOutboundT1: !c.OutboundT1, T1Period: c.T1Period,
		Draw: rand.IntN, Sparing: c.Pace == config.Eager,
	}
	x := &c.Experimental
	nc.NoInbound, nc.NoOutbound, nc.OnlyBoot, nc.SkipTombstones = x.NoInbound, x.NoOutbound, x.OnlyBoot, x.SkipTombstones
	nc.TTL, nc.AdvertisePeriod, nc.Rates = byte(x.TTL), c.AdvertisePeriod, c.Rates()
	nc.MaxPeersSent, nc.NewT1 = orNone(x.MaxPeersSent), orNone(c.NewT1)
	if x.T3Addr != "" {
		if nc.PublicAddr, err = netip.ParseAddrPort(x.T3Addr); err != nil {
			return nil, fmt.Errorf("network.experimental.tier3_public_addr: %w", err)
		}
		h.log.Infof("peers connect to %v to send states (network.experimental.tier3_public_addr)", nc.PublicAddr)
	}
	nc.Meter = near.NewMeter()
	h.front = &network.Status{Meter: nc.Meter, MaxPeers: uint32(c.MaxPeers),
		Awaits: len(boot) > 0 || h.Engine.GenesisOnly(), Log: h.log, FirstMet: h.onFirstPeer}
	o := &network.Options{
		Peer: hm.NodeKey.PublicKey(), Status: h.front, BootNodes: len(boot), Random: rand.IntN, Eager: c.Pace == config.Eager,
		Verify: h.signed.Verify,
		Sync: blocksync.Options{Threshold: primitives.Height(c.SyncThreshold), MaxRequests: int(c.SyncRequests),
			HeadersWait: c.HeadersWait.Milliseconds(), ProofWait: c.ProofWait.Milliseconds()},
		States:   statesync.Options{Wait: c.StateWait.Milliseconds(), Pause: c.StatePause.Milliseconds()},
		Route:    network.Route{Off: c.NoRouting, Horizon: primitives.Height(c.RouteHorizon)},
		Listener: &peerListener{h: h, c: nc, transport: c.Transport, l: l, over: over},
	}
	if k := hm.ValidatorKey; k != nil {
		o.Account, o.Key = k.AccountID, k.SecretKey
	}
	proxies, err := c.Proxies()
	if err != nil {
		return nil, fmt.Errorf("network.public_addrs: %w", err)
	}
	for _, p := range proxies {
		o.Proxies = append(o.Proxies, wire.PeerAddr{Addr: p.Addr, PeerID: p.Key})
	}
	if len(c.Stun) > 0 {
		o.Addresses = stunSource{c}
	}
	return o, nil
}

// orNone returns a number for near.Config, in which 0 means the default and a negative number none.
func orNone(n uint64) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// listensIPv4 returns whether network.addr is an IPv4 address or a name. The listener's address does
// not show it: for 0.0.0.0, Go opens a socket of both families, whose address is [::].
func listensIPv4(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err != nil || at.Addr().Unmap().Is4()
}

// stunSource implements network.AddressSource with the STUN servers of the configuration.
type stunSource struct{ c *config.Network }

// PublicIP implements network.AddressSource.
func (s stunSource) PublicIP(ctx context.Context) (netip.Addr, error) {
	ip, err := stun.Agreed(ctx, s.c.Stun, listensIPv4(s.c.Addr))
	if err != nil {
		return netip.Addr{}, err
	}
	return ip, s.c.CheckReported(ip)
}

// peerListener implements network.Listener.
type peerListener struct {
	h         *Daemon
	c         near.Config
	transport string
	l         net.Listener    // the first listener; closed after the first host has ended
	over      *libp2p.Options // nil: no libp2p
	again     bool            // true: l was used
}

// Listen implements network.Listener.
func (p *peerListener) Listen(deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
	on, again := p.l, p.again
	p.again = true
	now := p.c
	now.Known = p.h.peersOfBefore()
	if p.transport == config.OverLibp2p {
		_ = p.l.Close()
		on = nil
	} else if again { // listen again, because the first listener is closed
		var err error
		if on, err = tcp.Bind(p.l.Addr().String()); err != nil {
			return nil, err
		}
	}
	if p.over == nil {
		t := tcp.New(on, now, deliver, verify)
		t.Tap = p.h.tap
		return t, nil
	}
	way, err := p.h.listenLibp2p(p.over)
	if err != nil {
		if on != nil {
			_ = on.Close()
		}
		return nil, err
	}
	t := tcp.NewOver(on, way, now, deliver, verify)
	t.Tap = p.h.tap
	return t, nil
}

// Remember implements network.Listener.
func (p *peerListener) Remember(list []wire.PeerInfo) { p.h.storePeers(list) }

// signedFile is the name of the validator's signing journal. The journal is in the data folder,
// since a journal belongs to the chain that is stored there.
const signedFile = "signed"

// followsFile is the name of the journal of a node without a validator key. That journal stays
// empty.
const followsFile = "follows"

// validatorOptions returns the options of a validator that produces blocks together with other
// validators. validatorOptions returns nil if this node has no validator key, is the only
// validator, or has to sync the state of a later block first. from is Options.SignFrom.
func (h *Daemon) validatorOptions(from primitives.Height) (*validator.Options, error) {
	key := h.home.ValidatorKey
	if key == nil || h.Engine.GenesisOnly() { // after the state sync, the node starts again
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
	if err != nil || !others && !hasSigned(h.home) { // only the validator actor uses the signing journal
		return nil, err
	}
	h.withOthers, h.key = true, h.validatorKey
	return &validator.Options{Account: key.AccountID, Key: key.SecretKey,
		KeyWait: consensus.KeyWait{Blocks: h.home.KeyWait(h.home.Config), From: from},
		Journal: filepath.Join(h.home.Paths.Data, signedFile), Verifier: h.signed,
		Eager: h.home.Config.Network.Pace == config.Eager}, nil
}

// obstacles implements backend.Obstacles.
type obstacles struct{ *node.Node }

// Halted implements backend.Obstacles.
func (o obstacles) Halted() *view.Halted { return o.HaltedView() }

// KeyWait implements backend.Obstacles.
func (o obstacles) KeyWait() *view.KeyWait {
	w := o.KeyWaiting()
	if w.Key == "" {
		return nil
	}
	return &view.KeyWait{From: w.From, Left: w.Left}
}

// shadowOptions returns the options of a follower whose tracked shards change. Such a follower runs
// the validator actor, which moves shards, without a key. So the follower signs nothing.
func (h *Daemon) shadowOptions() *validator.Options {
	return &validator.Options{Journal: filepath.Join(h.home.Paths.Data, followsFile), Verifier: h.signed}
}

// hasSigned returns whether the validator of a folder has a signing journal. If so, the chain has
// had validators on other nodes.
func hasSigned(hm *home.Home) bool {
	for _, name := range []string{".0", ".1"} {
		if _, err := os.Stat(filepath.Join(hm.Paths.Data, signedFile+name)); err == nil {
			return true
		}
	}
	return false
}

// checkNeverShared returns an error if this validator has signed blocks of a chain with validators
// of other nodes. If the validator produced blocks alone from now on, its new signatures might
// contradict its earlier ones.
func checkNeverShared(hm *home.Home) error {
	if hm.ValidatorKey == nil || !hasSigned(hm) {
		return nil
	}
	return fmt.Errorf("%s has signed blocks and approvals with other validators (%s.*) and might contradict them "+
		"alone: connect it to its network again "+
		"(network.addr), or remove validator_key.json to run the node read-only", hm.ValidatorKey.AccountID,
		filepath.Join(hm.Paths.Data, signedFile))
}

// Peers parses a list of peers and resolves the host names in it. key is the name of the list in
// errors.
func Peers(key, list string) (out []wire.PeerInfo, err error) {
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

// blacklist returns a function that returns whether an address is in the list. An entry without a
// port covers all ports.
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

// storePeers stores the connected peers for the next run.
func (h *Daemon) storePeers(list []wire.PeerInfo) {
	raw := storage.Raw(borsh.AppendUint32(nil, uint32(len(list))))
	for i := range list {
		raw = list[i].AppendBorsh(raw)
	}
	var b storage.Batch
	storage.Misc.Put(&b, knownPeers, &raw)
	if err := h.store.Write(&b); err != nil {
		h.log.WithError(err).Warn("the list of connected peers was not stored for the next start")
	}
}

// peersOfBefore returns the peers of the previous run that this run dials.
func (h *Daemon) peersOfBefore() []wire.PeerInfo {
	if h.home.Config.Network.Experimental.ForgetPeers {
		return nil
	}
	return h.loadPeers()
}

// loadPeers returns the stored peers, or none if the store cannot read them.
func (h *Daemon) loadPeers() (out []wire.PeerInfo) {
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

// logLooksForPeers logs how a node that has only the genesis continues, and what the node lacks for
// that.
func (h *Daemon) logLooksForPeers() {
	id := h.home.Genesis.ChainID
	h.log.Infof("this node has only the genesis of %s: it looks for peers, to sync the state of a recent block from them", id)
	if h.home.Config.Network.BootNodes != "" || len(h.loadPeers()) > 0 {
		return
	}
	h.log.Warnf("no peers are known: network.boot_nodes in config.json is empty, so this node waits until peers connect to it. "+
		"Peers of %s are in the reply of any of its RPC nodes to network_info (active_peers): give some with --boot-nodes KEY@HOST:PORT,KEY@HOST:PORT", id)
}

// onFirstPeer ends a sandbox setting that peers would not accept: unsigned transactions.
func (h *Daemon) onFirstPeer() { h.checker.AllowUnsigned(nil, false) }

// sharedReason returns why the history of this chain must not be changed. The result is empty if
// the history may be changed.
func (h *Instance) sharedReason() string {
	switch f := h.front; {
	case f == nil:
		return ""
	case h.withOthers:
		return "this node shares the chain with other validators, which would not accept it"
	case f.Awaits:
		return "this node belongs to a network (network.boot_nodes), which would not accept it"
	case f.Met():
		return "peers have connected to this node, and would not accept it"
	}
	return ""
}

// checkExclusive does the same as checkSandbox, for changes that peers would not accept.
func (s sandboxControl) checkExclusive() error {
	if reason := s.sharedReason(); reason != "" {
		return &view.SandboxError{Reason: reason}
	}
	return s.checkSandbox()
}

// networkAddr returns the address to listen on for peers; empty: no network.
func networkAddr(c *config.Network) string {
	switch {
	case !c.On():
		return ""
	case c.Addr == "":
		return "127.0.0.1:0"
	}
	return c.Addr
}

// NetworkAddr returns the address that peers connect to; nil: no network.
func (h *Daemon) NetworkAddr() net.Addr { return h.network }

// peersClock returns the clock that bounds timestamps of peers' blocks and headers; nil: no
// network.
func peersClock(peers bool) func() uint64 {
	if !peers {
		return nil
	}
	return func() uint64 { return uint64(time.Now().UnixNano()) }
}

// maxHeightJump returns how far above the tip a peer's block may be: 20 epochs (nearcore
// chain/chain/src/chain.rs preprocess_block). 0: no limit, because the node has no network, and a
// sandbox skips as many heights as its client asks for.
func maxHeightJump(peers bool, c *engine.ChainSpec) primitives.Height {
	if !peers {
		return 0
	}
	return primitives.Height(20 * c.Params.Epoch.EpochLength)
}

// warnPatched logs a warning if this chain may have peers although its state was patched. Peers
// cannot execute the blocks with patches.
func (h *Daemon) warnPatched() {
	ref, patched, err := h.Engine.LastPatched()
	switch {
	case err != nil:
		h.log.WithError(err).Warn("the log of state patches cannot be read: peers may follow a patched chain without a warning")
	case patched:
		h.log.Warnf("the state of this chain was patched, last with block %d (%v): no other node can execute that block, "+
			"and one that follows from below it halts there. "+
			"A follower begins behind it with a copy of this node: `troupe snapshot create` here, `troupe snapshot restore` there", ref.Height, ref.Hash)
	}
}
