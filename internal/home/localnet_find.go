package home

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FindLocalnet lists the homes below dir in the order of their numbers: folders with a config.json
// whose names begin with prefix.
func FindLocalnet(dir, prefix string) ([]LocalnetNode, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, missing(dir, err, "create a network with `troupe localnet`")
	}
	var nodes []LocalnetNode
	numbers := map[string]int{}
	for _, e := range entries {
		number, err := strconv.Atoi(strings.TrimPrefix(e.Name(), prefix))
		if err != nil || !strings.HasPrefix(e.Name(), prefix) || !exists(filepath.Join(dir, e.Name(), ConfigFile)) {
			continue
		}
		numbers[e.Name()] = number
		n, err := findNode(filepath.Join(dir, e.Name()), e.Name())
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	switch {
	case len(nodes) == 0:
		return nil, &FileError{Path: dir, Err: fmt.Errorf("the folder contains no home of a node, such as %s0", prefix),
			Hint: "create a network with `troupe --home " + dir + " localnet`"}
	case len(nodes) > MaxLocalnet:
		return nil, &FileError{Path: dir, Err: fmt.Errorf("the folder contains %d homes, at most %d can run", len(nodes), MaxLocalnet)}
	}
	slices.SortFunc(nodes, func(a, b LocalnetNode) int { return numbers[a.Name] - numbers[b.Name] })
	return nodes, nil
}

func findNode(dir, name string) (LocalnetNode, error) {
	n := LocalnetNode{Name: name, Dir: dir, Role: RoleOther}
	c, _, err := LoadConfig(dir)
	if err != nil {
		return n, err
	}
	if c.RPC == nil {
		return n, &FileError{
			Path: filepath.Join(dir, ConfigFile),
			Err:  errors.New(`"rpc" is null, but the status display needs the RPC: set rpc.addr`),
		}
	}
	if n.RPC, err = netip.ParseAddrPort(c.RPC.Addr); err == nil {
		n.Network, err = netip.ParseAddrPort(c.Network.Addr)
	}
	if err != nil {
		return n, &FileError{
			Path: filepath.Join(dir, ConfigFile),
			Err:  fmt.Errorf("rpc.addr and network.addr must have the form IP:PORT: %w", err),
		}
	}
	n.Tracks = tracks(c.Document)
	p := PathsOf(dir, c)
	g, _, err := readGenesis(&p)
	if err != nil {
		return n, err
	}
	if exists(p.ValidatorKey) {
		k, err := ReadKeyFile(p.ValidatorKey)
		if err != nil {
			return n, err
		}
		if validatorProblem(g, k) == "" {
			n.Role = RoleValidator
			return n, nil
		}
	}
	switch {
	case c.Archive:
		n.Role = RoleArchival
	case n.Tracks == "all":
		n.Role = RoleRPC
	}
	return n, nil
}
