# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of build.py. They run on any Python from 3.9 on, with nothing installed."""
