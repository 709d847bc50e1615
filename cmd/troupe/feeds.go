package main

import "github.com/troupe-chain/troupe/internal/blockfeed"

// feedsOf parses the values of --follow. A feed that is given twice is an error.
func feedsOf(list []string) (out []blockfeed.Source, err error) {
	seen := map[string]bool{}
	for _, text := range list {
		s, err := blockfeed.Parse(text)
		if err != nil {
			return nil, usagef("--follow: %w", err)
		}
		if seen[s.Name()] {
			return nil, usagef("--follow: %s is given twice", s.Name())
		}
		seen[s.Name()] = true
		out = append(out, s)
	}
	return out, nil
}
