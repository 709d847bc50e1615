package home

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

const (
	// MaxLocalnet is the maximum number of nodes of a local network. Each node is a process of its
	// own.
	MaxLocalnet = 100

	logConfigFile = "log_config.json"
	coldData      = "cold-data"

	// neard draws ports from 20000 to 65535. The ports drawn here are below the ephemeral range, so
	// that no outgoing connection takes one of them before the first run.
	firstPort, lastPort = 20_000, 32_767
	portTries           = 10_000

	minPeers = 3 // neard's default of consensus.min_num_peers
)

// logConfig is neard's log_config.json, which this node does not read.
const logConfig = `{
  "rust_log": null,
  "verbose_module": null,
  "opentelemetry": null,
  "expensive_metrics": null
}`

// Role is the role of a localnet node.
type Role string

// The roles, in the order of the nodes' numbers.
const (
	RoleValidator Role = "validator"
	RoleArchival  Role = "archival"
	RoleRPC       Role = "rpc"
	RoleOther     Role = "follower"
)

// LocalnetOptions are the options of localnet.
type LocalnetOptions struct {
	Dir                                      string
	Prefix                                   string // prefix of folder and account names
	Shards                                   int
	Validators, Archival, RPC, NonValidators int
	TrackedShards                            string // all, none, or ids separated by commas
	ChainID                                  string // empty: random
	EpochLength                              uint64 // blocks; 0: neard's 60
	Host                                     netip.Addr
	BasePort                                 uint16 // node i gets ports BasePort+i and BasePort+100+i; 0: random ports
	// Adjust edits a node's config.json; nil: the config.json stays as neard's localnet writes it.
	Adjust func(nodes []LocalnetNode, i int, doc *config.Document)

	Now    func() time.Time
	Random io.Reader
	Free   func(netip.AddrPort) bool // tests whether a port is free; PortFree, except in tests
}

// LocalnetNode is one home of a localnet.
type LocalnetNode struct {
	Name, Dir    string
	Role         Role
	Tracks       string // all, none (only assigned shards), or the value in config.json
	RPC, Network netip.AddrPort
}

// LocalnetResult reports what Localnet made.
type LocalnetResult struct {
	ChainID string
	Nodes   []LocalnetNode
	Notes   []string
}

func (o *LocalnetOptions) nodes() int { return o.Validators + o.Archival + o.RPC + o.NonValidators }

// role returns the role of node i. Like neard, role numbers validators first, then archival nodes,
// then RPC nodes, then the nodes without a role.
func (o *LocalnetOptions) role(i int) Role {
	switch {
	case i < o.Validators:
		return RoleValidator
	case i < o.Validators+o.Archival:
		return RoleArchival
	case i < o.Validators+o.Archival+o.RPC:
		return RoleRPC
	}
	return RoleOther
}

func (o *LocalnetOptions) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrUsage, fmt.Sprintf(format, args...))
	}
	for _, c := range []struct {
		flag       string
		n, min, mx int
	}{
		{"shards", o.Shards, 1, MaxShards}, {"validators", o.Validators, 1, MaxLocalnet}, {"non-validators-archival", o.Archival, 0, MaxLocalnet},
		{"non-validators-rpc", o.RPC, 0, MaxLocalnet}, {"non-validators", o.NonValidators, 0, MaxLocalnet},
	} {
		if c.n < c.min || c.n > c.mx {
			return bad("--%s is %d, must be from %d to %d", c.flag, c.n, c.min, c.mx)
		}
	}
	if n := o.nodes(); n > MaxLocalnet {
		return bad("the options ask for %d nodes in total, at most %d are possible", n, MaxLocalnet)
	}
	for _, name := range []string{o.Prefix + "0", o.Prefix + strconv.Itoa(o.nodes()-1)} {
		if _, err := primitives.ParseAccountID(name); err != nil {
			return bad("--prefix is %q, so a node would be named %s, which is not a valid account id: %v", o.Prefix, name, err)
		}
	}
	if _, _, err := o.tracked(); err != nil {
		return bad("%v", err)
	}
	if o.BasePort != 0 && int(o.BasePort)+2*MaxLocalnet > 1<<16 {
		return bad("--base-port is %d, must be at most %d", o.BasePort, 1<<16-2*MaxLocalnet)
	}
	if o.ChainID != "" && public(o.ChainID) {
		return bad("--chain-id %s is a public network, whose genesis cannot be created", o.ChainID)
	}
	return nil
}

// tracked returns neard's value of tracked_shards_config. If the flag is a list of shards, neard
// tracks all shards, whichever are listed; listed is true in that case.
func (o *LocalnetOptions) tracked() (value string, listed bool, err error) {
	switch strings.ToLower(o.TrackedShards) {
	case "all":
		return "AllShards", false, nil
	case "none":
		return "NoShards", false, nil
	}
	for id := range strings.SplitSeq(o.TrackedShards, ",") {
		if _, err := strconv.ParseUint(id, 10, 64); err != nil {
			return "", false, fmt.Errorf("--tracked-shards is %q, must be all, none, or shard ids separated by commas", o.TrackedShards)
		}
	}
	return "AllShards", true, nil
}

// Localnet makes the homes of a local network, as neard's localnet does: the keys, seeded with the
// nodes' names, the genesis and config.json are the same. Only ports, time and chain id change from
// run to run. Localnet replaces no file.
func Localnet(o LocalnetOptions) (*LocalnetResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.ChainID == "" {
		id, err := randomChainID(o.Random)
		if err != nil {
			return nil, err
		}
		o.ChainID = id
	}
	if !o.Host.IsValid() {
		if o.Host = netip.IPv6Loopback(); !o.Free(netip.AddrPortFrom(o.Host, 0)) {
			o.Host = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // for a machine without IPv6
		}
	}
	r := &LocalnetResult{ChainID: o.ChainID}
	for i := range o.nodes() {
		name := o.Prefix + strconv.Itoa(i)
		n := LocalnetNode{Name: name, Dir: filepath.Join(o.Dir, name), Role: o.role(i)}
		if used(n.Dir) {
			return nil, &FileError{Path: n.Dir, Err: fmt.Errorf("%w: the folder contains a node already", ErrConflict),
				Hint: "choose another folder with --home or other names with --prefix, or remove the folder"}
		}
		r.Nodes = append(r.Nodes, n)
	}
	if err := o.ports(r.Nodes); err != nil {
		return nil, err
	}
	g, err := o.genesis(r.Nodes)
	if err != nil {
		return nil, err
	}
	var s stage
	defer s.drop()
	for i := range r.Nodes {
		if err := o.write(&s, r.Nodes, i, g); err != nil {
			return nil, err
		}
	}
	if err := s.commit(); err != nil {
		return nil, err
	}
	if _, listed, _ := o.tracked(); listed {
		r.Notes = append(r.Notes, "--tracked-shards with a list of ids is written as AllShards to config.json, as neard's localnet does")
	}
	return r, nil
}

// PortFree returns whether a socket can listen at a: the port is free and the machine has the
// address. Port 0 checks the address alone.
func PortFree(a netip.AddrPort) bool {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// ports gives each node an address for its RPC and an address for peers.
func (o *LocalnetOptions) ports(nodes []LocalnetNode) error {
	taken := map[uint16]bool{}
	draw := func() (netip.AddrPort, error) {
		for range portTries {
			var b [2]byte
			if _, err := io.ReadFull(o.Random, b[:]); err != nil {
				return netip.AddrPort{}, fmt.Errorf("choose a port: %w", err)
			}
			port := firstPort + binary.LittleEndian.Uint16(b[:])%(lastPort-firstPort+1)
			if a := netip.AddrPortFrom(o.Host, port); !taken[port] && o.Free(a) {
				taken[port] = true
				return a, nil
			}
		}
		return netip.AddrPort{}, fmt.Errorf("no free port from %d to %d on %v: choose ports with --base-port", firstPort, lastPort, o.Host)
	}
	for i := range nodes {
		if o.BasePort != 0 {
			nodes[i].Network = netip.AddrPortFrom(o.Host, o.BasePort+uint16(i))
			nodes[i].RPC = netip.AddrPortFrom(o.Host, o.BasePort+MaxLocalnet+uint16(i))
			for _, at := range []netip.AddrPort{nodes[i].Network, nodes[i].RPC} {
				if !o.Free(at) {
					return fmt.Errorf("%w: %v, a port of %s, is in use: stop what listens there, or choose other ports with --base-port (now %d)",
						ErrConflict, at, nodes[i].Name, o.BasePort)
				}
			}
			continue
		}
		for _, at := range []*netip.AddrPort{&nodes[i].Network, &nodes[i].RPC} {
			var err error
			if *at, err = draw(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *LocalnetOptions) genesis(nodes []LocalnetNode) (*genesis.Genesis, error) {
	accounts := make([]primitives.AccountID, len(nodes))
	for i, n := range nodes {
		accounts[i] = primitives.AccountID(n.Name)
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{
		ChainID: o.ChainID, Time: genesis.Time(o.Now().UnixNano()), Accounts: accounts, Validators: o.Validators, Shards: 1,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		return nil, err
	}
	if g.Config.ShardLayout, err = shardLayout(o.Shards); err != nil {
		return nil, err
	}
	if o.EpochLength != 0 {
		g.Config.EpochLength = o.EpochLength
		g.Config.TransactionValidityPeriod = min(g.Config.TransactionValidityPeriod, 2*o.EpochLength)
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%w: no valid genesis can be created from them: %w", ErrUsage, err)
	}
	return g, nil
}

// write writes the home folder of node i.
func (o *LocalnetOptions) write(s *stage, nodes []LocalnetNode, i int, g *genesis.Genesis) error {
	n := &nodes[i]
	key := primitives.SecretKeyFromSeed(primitives.ED25519, n.Name) // the account's key and the node's key
	doc := o.config(nodes, i)
	c, _, err := config.Parse(filepath.Join(n.Dir, ConfigFile), doc.Format())
	if err != nil {
		return err
	}
	paths := PathsOf(n.Dir, c)
	text := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		}
	}
	for _, f := range []struct {
		path string
		mode os.FileMode
		fill func(io.Writer) error
	}{
		{paths.ValidatorKey, modeSecret, text((&primitives.KeyFile{AccountID: primitives.AccountID(n.Name), SecretKey: key}).MarshalIndent())},
		{paths.NodeKey, modeSecret, text((&primitives.KeyFile{AccountID: nodeName, SecretKey: key}).MarshalIndent())},
		{paths.Genesis, modePublic, func(w io.Writer) error { return genesis.Write(w, &g.Config, slices.Values(g.Records)) }},
		{filepath.Join(n.Dir, logConfigFile), modePublic, text([]byte(logConfig))},
		// last, so that a home with a config.json has all other files
		{filepath.Join(n.Dir, ConfigFile), modePublic, text(doc.Format())},
	} {
		if _, err := s.write(f.path, f.mode, f.fill); err != nil {
			return err
		}
	}
	return nil
}

// config returns neard's config.json of node i (nearcore nearcore/src/config.rs,
// create_localnet_config).
func (o *LocalnetOptions) config(nodes []LocalnetNode, i int) *config.Document {
	at := func(n *LocalnetNode) string {
		key := primitives.SecretKeyFromSeed(primitives.ED25519, n.Name).PublicKey()
		return fmt.Sprintf("%v@%v", key, n.Network)
	}
	n, tracked := &nodes[i], "AllShards"
	if n.Role == RoleValidator || n.Role == RoleOther {
		tracked, _, _ = o.tracked()
	}
	doc := config.Default(false)
	doc.Set("consensus.min_num_peers", json.Number(strconv.Itoa(min(o.Validators-1, minPeers))))
	doc.Set("rpc.enable_debug_rpc", true)
	doc.Set("rpc.addr", n.RPC.String())
	doc.Set("network.addr", n.Network.String())
	doc.Set("network.public_addrs", []any{at(n)})
	doc.Set("network.allow_private_ip_in_public_addrs", true)
	doc.Set("network.tier1.connect_interval.secs", json.Number("5"))
	if i > 0 {
		doc.Set("network.boot_nodes", at(&nodes[0]))
	}
	doc.Set("network.skip_sync_wait", o.Validators == 1)
	last := "consensus"
	add := func(key string, v any) { doc.SetAfter(key, last, v); last = key }
	add("tracked_shards_config", tracked)
	if n.Role == RoleArchival {
		add("archive", true)
		add("save_trie_changes", true)
	}
	if i == 0 {
		add("save_tx_outcomes", true)
	}
	if n.Role == RoleArchival {
		cold, _ := config.Default(false).Get("store")
		cold.(*config.Document).Set("path", coldData)
		split := config.NewDocument()
		split.Set("enable_split_storage_view_client", true)
		split.Set("cold_store_loop_sleep_duration.secs", json.Number("1"))
		split.Set("cold_store_loop_sleep_duration.nanos", json.Number("0"))
		split.Set("num_cold_store_read_threads", json.Number("4"))
		last = "store"
		add("cold_store", cold)
		add("split_storage", split)
	}
	if o.Adjust != nil {
		o.Adjust(nodes, i, doc)
	}
	n.Tracks = tracks(doc)
	return doc
}

// tracks describes the tracked_shards_config of a config.json.
func tracks(doc *config.Document) string {
	switch v, _ := doc.Get("tracked_shards_config"); v {
	case "AllShards":
		return "all"
	case "NoShards", nil:
		return "none"
	}
	return "some"
}
