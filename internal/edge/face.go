package edge

import (
	"context"
	"time"
)

type pilotooFace struct{}

func newPilotooFace(h *Hub, o Options) *pilotooFace               { return &pilotooFace{} }
func (f *pilotooFace) drain(ctx context.Context, d time.Duration) {}
func (f *pilotooFace) close()                                     {}
func (f *pilotooFace) sockets() int                               { return 0 }
