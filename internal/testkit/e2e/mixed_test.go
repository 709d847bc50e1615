//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// mixed is the network that a node under test is compared with: the nodes that produce blocks,
// their addresses, and the number of shards.
type mixed struct {
	nodes  []*process
	boot   []string
	shards int
	blocks int    // number of blocks to follow
	mark   string // makes the account names of this run distinct from those of other runs on the chain
}

// sent is a transaction that a node accepted.
type sent struct {
	hash   string
	sender primitives.AccountID
}

// submitter submits transactions of one account to one node, one after the other.
type submitter struct {
	s    *signer
	to   *process
	list []sent
}

func (c *submitter) submit(t *testing.T, to primitives.AccountID, actions ...primitives.Action) {
	encoded := c.s.sign(to, actions...)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Error(err)
		return
	}
	r, err := c.to.call("broadcast_tx_async", []string{encoded})
	if err != nil || r.Error != nil {
		t.Errorf("%s refused a transaction: %v %s", c.to.home, err, replyText(r))
		return
	}
	c.list = append(c.list, sent{hashOf(t, raw), c.s.key.AccountID})
}

// renew signs later transactions on a more recent block.
func (c *submitter) renew(t *testing.T) {
	r, err := c.to.call("block", map[string]any{"finality": "final"})
	var h head
	if err == nil {
		err = json.Unmarshal(r.Result, &h)
	}
	if err == nil {
		c.s.base, err = primitives.ParseHash(h.Header.Hash)
	}
	if err != nil {
		t.Errorf("no final block: %v %s", err, replyText(r))
	}
}

// other returns a signer for another account with the same key.
func (p *process) other(of *signer, id primitives.AccountID) *signer {
	p.t.Helper()
	key := *of.key
	key.AccountID = id
	s := &signer{key: &key, base: of.base}
	var view struct {
		Nonce primitives.Nonce `json:"nonce"`
	}
	p.get("query", map[string]any{"request_type": "view_access_key", "finality": "final", "account_id": id, "public_key": key.SecretKey.PublicKey().String()}, &view)
	s.nonce = view.Nonce
	return s
}

const tokenInit = `{"owner_id":%q,"total_supply":"1000","metadata":{"spec":"ft-1.0.0","name":"n","symbol":"s","decimals":0}}`

// settle creates an account in each shard of a neard localnet, and deploys a contract in the last
// shard. It returns the clients of the load: one for each node, and one for the node under test.
func (m *mixed) settle(t *testing.T, tested *process) (clients []*submitter, token primitives.AccountID) {
	t.Helper()
	first := m.nodes[0]
	root := first.signer()
	key := root.key.SecretKey.PublicKey()
	for _, name := range []string{"test1", "test2", "test3"} {
		id := primitives.AccountID(name + m.mark + "." + string(root.key.AccountID))
		first.send(root.sign(id, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(10_000)},
			&primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{}}), "FINAL")
		token = id
	}
	owner := first.other(root, token)
	first.send(owner.sign(token, &primitives.DeployContract{Code: contracts.C("ft")}, &primitives.FunctionCall{Method: "new", Args: fmt.Appendf(nil, tokenInit, token), Gas: 50e12}), "FINAL")
	for _, n := range m.nodes {
		clients = append(clients, &submitter{s: n.signer(), to: n})
	}
	tested.reaches(first.head("final").Header.Height, time.Minute)
	for _, name := range []string{"test1", "test2"} {
		clients = append(clients, &submitter{s: first.other(root, primitives.AccountID(name+m.mark+"."+string(root.key.AccountID))), to: tested})
	}
	return clients, token
}

// load submits transfers in all shards and calls of a contract until stop is closed.
func (m *mixed) load(t *testing.T, clients []*submitter, token primitives.AccountID, stop <-chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	for k, c := range clients {
		targets := []primitives.AccountID{"near"}
		for _, o := range clients {
			targets = append(targets, o.s.key.AccountID)
		}
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(250 * time.Millisecond):
				}
				if i%20 == 0 {
					c.renew(t)
				}
				if i%3 == 2 {
					c.submit(t, token, &primitives.FunctionCall{Method: "storage_deposit", Args: fmt.Appendf(nil, `{"account_id":"holder%d-%d.near"}`, k, i),
						Gas: 30e12, Deposit: primitives.NEAR(1)})
				} else {
					c.submit(t, targets[(i+k)%len(targets)], &primitives.Transfer{Deposit: primitives.Yocto(1)})
				}
			}
		})
	}
	return &group
}

// follows compares a troupe that follows a network with the network's nodes: blocks, chunks, state,
// transactions, proofs.
func (m *mixed) follows(t *testing.T, tested *process, restart func() *process) {
	t.Helper()
	first := m.nodes[0]
	clients, token := m.settle(t, tested)
	stop := make(chan struct{})
	group := m.load(t, clients[:len(clients)-2], token, stop)
	stopOwn := make(chan struct{})
	own := m.load(t, clients[len(clients)-2:], token, stopOwn)
	from := first.head("final").Header.Height
	tested.reaches(from+uint64(m.blocks)/2, 10*time.Minute)

	close(stopOwn)
	own.Wait()
	begun := time.Now()
	tested = restart()
	at := first.head("final").Header.Height
	tested.reaches(at, 2*time.Minute)
	t.Logf("killed and started again, in step at %d after %v", at, time.Since(begun))
	tested.reaches(from+uint64(m.blocks), 10*time.Minute)
	close(stop)
	group.Wait()

	var took []time.Duration
	c := clients[len(clients)-1]
	c.to = tested
	for range 10 {
		c.renew(t)
		begun := time.Now()
		if got := tested.send(c.s.sign("near", &primitives.Transfer{Deposit: primitives.Yocto(1)}), "FINAL").Level; got != "FINAL" {
			t.Errorf("transaction submitted to the follower: level %s, want FINAL", got)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("submitted to the one that follows: FINAL in %v (median of 10), %v at most", took[5], took[9])
	time.Sleep(3 * time.Second)
	end := first.head("final").Header
	tested.reaches(end.Height, time.Minute)

	cmp := &comparison{a: first, b: tested}
	blocks := cmp.blocks(t, int(max(1, int64(end.Height)-int64(m.blocks))), int(end.Height), m.shards)
	var accounts []string
	for _, c := range clients {
		accounts = append(accounts, string(c.s.key.AccountID))
	}
	accounts = append(accounts, string(token), "near")
	// the first one is of an epoch that has ended
	for _, h := range []uint64{max(66, end.Height) - 65, end.Height - uint64(m.blocks)/2, end.Height - 1, end.Height} {
		cmp.state(t, h, accounts, string(token))
	}
	cmp.proofs(t, accounts)
	total, byOwn := 0, 0
	for k, c := range clients {
		total += len(c.list)
		if k >= len(clients)-2 {
			byOwn += len(c.list)
		}
		for i := 0; i < len(c.list); i += 1 + len(c.list)/12 {
			cmp.transaction(t, c.list[i].hash, string(c.list[i].sender), end.Hash)
		}
	}
	var zero head
	first.get("block", map[string]any{"block_id": 1}, &zero)
	light := cmp.lightClient(t, zero.Header.Hash)
	m.statuses(t, first, tested)
	t.Logf("%d blocks, %d transactions (%d through the one that follows), %d light client blocks; %d requests of both, %d the same byte for byte",
		blocks, total, byOwn, light, cmp.asked, cmp.equal)
	if blocks < m.blocks*9/10 || byOwn < 5 {
		t.Errorf("%d blocks of %d, %d transactions of its own", blocks, m.blocks, byOwn)
	}
}

// statuses compares those parts of the status reply that do not depend on the node.
func (m *mixed) statuses(t *testing.T, a, b *process) {
	t.Helper()
	type common struct {
		Chain    string `json:"chain_id"`
		Genesis  string `json:"genesis_hash"`
		Protocol uint32 `json:"protocol_version"`
		Latest   uint32 `json:"latest_protocol_version"`
		Sync     struct {
			Earliest string `json:"earliest_block_hash"`
			Syncing  bool   `json:"syncing"`
		} `json:"sync_info"`
	}
	var x, y common
	a.get("status", []any{}, &x)
	b.get("status", []any{}, &y)
	if x != y {
		t.Errorf("status: %+v, %+v", x, y)
	}
	for _, p := range []*process{a, b} {
		var info struct {
			Peers []struct {
				ID string `json:"id"`
			} `json:"active_peers"`
		}
		p.get("network_info", []any{}, &info)
		if len(info.Peers) == 0 {
			t.Errorf("%s has no peers", p.home)
		}
	}
}

// TestTroupeFollowsNeards: a troupe joins four neards with four shards at the genesis and follows
// them under load. It is killed and continues after the restart, forwards transactions that clients
// submit to it, and gives the same replies as the neards.
func TestTroupeFollowsNeards(t *testing.T) {
	program := neardProgram(t)
	homes := neardNet(t, program, 4, 4, 60)
	m := &mixed{shards: 4, blocks: 200}
	for _, s := range homes {
		m.boot = append(m.boot, s.peer(t))
	}
	for _, s := range homes {
		m.nodes = append(m.nodes, runNeard(t, program, s))
	}
	tested, again := m.troupe(t, homes[0].home, m.boot[0])
	m.follows(t, tested, again)
	for _, n := range m.nodes {
		if said := complaints(n.out.String()); len(said) > 0 {
			t.Errorf("%s logged %d complaints, want 0: %s", n.home, len(said), said[0])
		}
	}
}

// troupe starts a troupe that follows a network. again kills and restarts it.
func (m *mixed) troupe(t *testing.T, of, boot string) (p *process, again func() *process) {
	t.Helper()
	dir, at := joined(t, of), freeAddr(t)
	begin := func() *process {
		p = start(t, dir, "--network-addr", at, "--boot-nodes", boot)
		return p
	}
	p = begin()
	return p, func() *process {
		p.stop(syscall.SIGKILL)
		return begin()
	}
}

// TestTroupeFollowsTroupe is TestTroupeFollowsNeards with a troupe that produces the blocks. If it
// fails too, the cause is in the test, not in the network.
func TestTroupeFollowsTroupe(t *testing.T) {
	dir, addr := newHome(t, "--num-shards", "4", "--chain-id", "interop", "--fast"), freeAddr(t)
	m := &mixed{shards: 4, blocks: 60, boot: []string{peerOf(t, dir, addr)}}
	m.nodes = []*process{start(t, dir, "--network-addr", addr, "--block-production", "interval")}
	tested, again := m.troupe(t, dir, m.boot[0])
	m.follows(t, tested, again)
}

// TestNeardFollowsTroupe: a neard joins a troupe that produces all blocks, and another neard joins
// a follower of that troupe. Both receive blocks, headers and chunks, forward transactions, and log
// no complaint about a peer.
func TestNeardFollowsTroupe(t *testing.T) {
	program := neardProgram(t)
	dir, addr := newHome(t, "--num-shards", "4", "--chain-id", "interop", "--fast"), freeAddr(t)
	change(t, filepath.Join(dir, "genesis.json"), func(g object) { g["epoch_length"] = 300 })
	boot := peerOf(t, dir, addr)
	maker := start(t, dir, "--network-addr", addr, "--block-production", "interval")
	between, second := joined(t, dir), freeAddr(t)
	follower := start(t, between, "--network-addr", second, "--boot-nodes", boot)
	for _, c := range []struct{ name, mark, boot string }{{"the one that makes blocks", "a", boot}, {"one that follows", "b", peerOf(t, between, second)}} {
		t.Run(c.name, func(t *testing.T) {
			s := neardFollower(t, program, dir, c.boot)
			change(t, filepath.Join(s.home, "config.json"), func(o object) { o.at("network").at("experimental")["connect_only_to_boot_nodes"] = true })
			begun := time.Now()
			n := runNeard(t, program, s)
			n.reaches(maker.head("final").Header.Height, 3*time.Minute)
			t.Logf("in step after %v", time.Since(begun))
			m := &mixed{nodes: []*process{maker}, shards: 4, blocks: 60, mark: c.mark}
			m.follows(t, n, func() *process {
				n.end(syscall.SIGTERM)
				time.Sleep(3 * time.Second)
				n = runNeard(t, program, s)
				return n
			})
			if said := complaints(n.out.String()); len(said) > 0 {
				t.Errorf("neard logged %d complaints, want 0: %s", len(said), said[0])
			}
			n.end(syscall.SIGTERM)
		})
	}
	follower.reaches(maker.head("final").Header.Height, time.Minute)
}

// TestClientsOfMixedNetworkGetSameResults: near-api-js gets the same results from a neard and a
// troupe in one network.
func TestClientsOfMixedNetworkGetSameResults(t *testing.T) {
	program := neardProgram(t)
	need(t, "node", "npm")
	installed(t, npmInstall)
	homes := neardNet(t, program, 2, 4, 300)
	var nodes []*process
	for _, s := range homes {
		nodes = append(nodes, runNeard(t, program, s))
	}
	m := &mixed{shards: 4}
	tested, _ := m.troupe(t, homes[0].home, homes[0].peer(t))
	tested.reaches(nodes[0].head("final").Header.Height, time.Minute)
	for k, p := range []*process{nodes[0], tested} {
		key := homes[k].home // one account each, because two clients with one key use the same nonces
		env := []string{"NEAR_RPC_URL=http://" + p.addr, "NEAR_HOME=" + key}
		t.Run(filepath.Base(p.home), func(t *testing.T) { script(t, "js", env, "node", "nearjs.mjs") })
	}
}
