package daemon

import (
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/config"
)

// origins are the bounds of EXPERIMENTAL_receipt_to_tx as config.json has them.
func origins(c *config.Config) backend.Origins {
	o := &c.ReceiptOrigins
	return backend.Origins{NoMapping: !o.Mapping, NoOutcomes: !o.Outcomes, MaxWindow: o.Window, MaxHop: o.Hop, MaxOutcomes: o.Budget}
}
