package node

// PoolBytes is the sum of the sizes of the transactions in the pools. From any goroutine.
func (n *Node) PoolBytes() (sum uint64) {
	for _, t := range n.shards.set.Load().list {
		sum += uint64(max(t.pool.Bytes(), 0)) + uint64(max(t.pool.HeldBytes(), 0))
	}
	return sum
}
