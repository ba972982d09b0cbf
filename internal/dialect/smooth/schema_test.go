package smooth_test

func validEvent([]byte) error { return nil }
