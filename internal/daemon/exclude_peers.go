package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// The list of excluded peers partitions a local network. The list can only be changed through the
// control socket, to which only processes of the same user on this machine can connect. A node that
// listens beyond the loopback interface refuses the request, because the node may be part of a real
// network.

// maxExcluded is the maximum number of excluded peers.
const maxExcluded = 1000

// excludeLimit is the maximum time until the node's reply to a request.
const excludeLimit = 2 * time.Second

// excludeRequest is the request on the control socket to exclude peers.
type excludeRequest struct {
	Exclude *[]primitives.PublicKey `json:"exclude_peers"`
}

// ExcludePeers makes the node that runs on a data folder close and refuse connections with these
// peers, which are given by their node keys. The list replaces the list of the previous call.
// Errors: no node runs there, or the node listens for peers beyond this machine.
func ExcludePeers(data string, peers []primitives.PublicKey) error {
	peers = append([]primitives.PublicKey{}, peers...) // not nil, because in JSON null would mean a different request
	conn, err := dialControl(data, excludeRequest{&peers})
	if err != nil {
		return fmt.Errorf("no node answers at %s: %w", filepath.Join(data, controlName), err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(excludeLimit))
	var reply excludeReply
	if err := json.NewDecoder(bufio.NewReader(io.LimitReader(conn, maxRequest))).Decode(&reply); err != nil {
		return fmt.Errorf("the node at %s does not answer: %w", filepath.Join(data, controlName), err)
	}
	switch {
	case reply.Error != "":
		return errors.New(reply.Error)
	case reply.Excluded == nil:
		return errors.New("the node is of a version that cannot exclude peers")
	}
	return nil
}

// excludeReply is the reply to excludeRequest. Exactly one field is set.
type excludeReply struct {
	Error    string `json:"error,omitempty"`
	Excluded *int   `json:"excluded,omitempty"` // number of excluded peers
}

// serveExclude answers a request to exclude peers.
func (c *control) serveExclude(w io.Writer, peers []primitives.PublicKey) {
	n := len(peers)
	reply := excludeReply{Excluded: &n}
	if err := c.h.excludePeers(peers); err != nil {
		reply = excludeReply{Error: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(&reply)
}

func (h *Daemon) excludePeers(peers []primitives.PublicKey) error {
	switch {
	case h.front == nil:
		return errors.New("this node has no peers: network.addr and network.boot_nodes are empty")
	case len(peers) > maxExcluded:
		return fmt.Errorf("the list has %d peers to exclude, the limit is %d", len(peers), maxExcluded)
	case !isLoopback(h.network):
		return fmt.Errorf("this node listens for peers at %v, which is not a loopback address: "+
			"peers can be excluded only if all nodes run on this machine", h.network)
	}
	if w := h.libp2pTransport.Load(); w != nil && !w.Addr().Addr().Unmap().IsLoopback() {
		return fmt.Errorf("this node listens for libp2p peers at %v, which is not a loopback address: "+
			"peers can be excluded only if all nodes run on this machine", w.Addr())
	}
	list := make([]wire.PeerID, 0, len(peers))
	for _, p := range peers {
		list = append(list, wire.PeerID(p))
	}
	if h.front.Exclude(list) {
		h.log.Warnf("peers that are excluded from now on, at the request of another process: %d", len(list))
	}
	return nil
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
