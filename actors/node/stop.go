package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
)

// drainLimit bounds each step of Stop. A step lasts at most as long as a block.
const drainLimit = 5 * time.Second

// Stop ends the node. It accepts no more transactions, ends waits with ErrStopped, finishes the
// block that is being made or imported, and ends the actors. After that, all accepted blocks are on
// disk. Engine and store stay open. A second call returns the result of the first.
func (n *Node) Stop(ctx context.Context) error {
	n.stopOnce.Do(func() { n.stopErr = n.stop(ctx) })
	return n.stopErr
}

func (n *Node) stop(ctx context.Context) error {
	close(n.ended)
	if waiting := n.Waiting(); waiting > 0 {
		n.o.Log.Warnf("%d transactions are in no block yet; pools are not kept over a restart, so their senders must send them again", waiting)
	}
	n.background.Wait()
	var errProducer, errChain error
	if !n.spawner.supervisor.hasHalted(n.producer) {
		_, errProducer = system.Ask[messages.StopProducing, messages.Stopped](n.root, n.producer, drainLimit)(ctx,
			messages.StopProducing{})
	}
	if !n.spawner.supervisor.hasHalted(n.chain) {
		_, errChain = system.Ask[messages.DrainChain, messages.Drained](n.root, n.chain, drainLimit)(ctx,
			messages.DrainChain{})
	}
	ends := []*actor.PID{n.history, n.network, n.subscriptions, n.rpc, n.meter, n.chain}
	if n.hasProducer() {
		ends = append(ends, n.producer)
	}
	for _, t := range n.shards.set.Load().list {
		ends = append(ends, t.pid)
	}
	ends = append(ends, n.tracker)
	var errEnd error
	for _, pid := range ends {
		if pid == nil {
			continue
		}
		stopped := make(chan error, 1)
		future := n.root.StopFuture(pid)
		go func() { stopped <- future.Wait() }()
		var err error
		select {
		case err = <-stopped:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			errEnd = errors.Join(errEnd, fmt.Errorf("node: stop actor %s: %w", pid.GetId(), err))
		}
	}
	n.signatures.Close()
	return errors.Join(errProducer, errChain, errEnd, ctx.Err())
}
