package link

import cmap "github.com/orcaman/concurrent-map"

// protoactor's registry of processes is 1024 maps, each made of SHARD_COUNT maps with a lock of their own. Of the 32 that are
// the default nothing would be gained with so few actors, and they would take 14 MB and several ms of every start. It is set
// before there is any registry, since a map finds its parts by the same number.
func init() { cmap.SHARD_COUNT = 1 }
