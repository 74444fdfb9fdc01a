
-- Makes the script that follows a function, which is called with its own KEYS and ARGV for each claim.
local function acquire(KEYS, ARGV)
