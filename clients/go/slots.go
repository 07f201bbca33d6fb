package tidemill

// slotCount is the number of hash slots of a cluster.
const slotCount = 16384
