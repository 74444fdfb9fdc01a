
-- The script that stands below is a function here. It is called with its own KEYS and ARGV for each claim.
local function acquire(KEYS, ARGV)
